#include "evidence/observer_queue.h"

#include "clinux_memory.h"

#include <stdatomic.h>

/* Part of libdispatch, if linked; not in its headers for Linux. */
extern void *dispatch_get_current_queue(void) __attribute__((weak));

static _Atomic int32_t last_offset;
static _Atomic uint32_t next_offset;
static _Atomic uint64_t uncounted;

void observer_queue_know(const struct observer_queue_layout *layout) {
  atomic_store_explicit(&last_offset, layout->last, memory_order_relaxed);
  atomic_store_explicit(&uncounted, layout->uncounted, memory_order_relaxed);
  atomic_store_explicit(&next_offset, layout->next, memory_order_release);
}

static bool read_word(uint64_t address, uint64_t *word) { return clinux_memory_read(address, word, sizeof *word); }

/* Counts the items from FIRST to LAST. Returns 0 if the list does not lead to LAST. */
static uint32_t count(uint64_t first, uint64_t last, uint32_t next) {
  uint64_t item = first, following;
  for (uint32_t found = 1; found <= OBSERVER_WAITING_MAX; found++) {
    if (item % sizeof item != 0 || !read_word(item + next, &following))
      return 0;
    if (item == last)
      return found;
    /* A new item is stored as the last one before the previous item links to it. */
    if (following == 0)
      return 0;
    item = following;
  }
  return OBSERVER_WAITING_MAX;
}

uint32_t observer_queue_count(const struct observer_queue_layout *layout, uint64_t first_address) {
  enum { ATTEMPTS = 3 };
  uint64_t last_address = first_address + (uint64_t)(int64_t)layout->last;
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    uint64_t first, again, last;
    if (!read_word(first_address, &first) || !read_word(last_address, &last) || first == 0 || last == 0)
      return 0;
    uint32_t found = count(first, last, layout->next);
    /* If an item has started meanwhile, it might be freed and its link invalid. */
    if (found > 0 && read_word(first_address, &again) && again == first)
      return found;
  }
  return 0;
}

uint32_t observer_queue_waiting(uint64_t first_address) {
  struct observer_queue_layout layout = {.next = atomic_load_explicit(&next_offset, memory_order_acquire)};
  layout.last = atomic_load_explicit(&last_offset, memory_order_relaxed);
  layout.uncounted = atomic_load_explicit(&uncounted, memory_order_relaxed);
  bool is_counted = layout.next != 0 && first_address != 0 && first_address != layout.uncounted;
  return is_counted ? observer_queue_count(&layout, first_address) : 0;
}

uint64_t observer_queue_current(void) {
  return dispatch_get_current_queue ? (uint64_t)(uintptr_t)dispatch_get_current_queue() : 0;
}
