#define _GNU_SOURCE
#include "observer_slot.h"

#include "observer_memory.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static struct observer_slot *slots;
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

static void map_slots(void) {
  void *memory = mmap(NULL, sizeof(struct observer_slot) * OBSERVER_SLOTS_MAX, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  slots = memory == MAP_FAILED ? NULL : memory;
}

struct observer_slot *observer_slot_table(void) {
  pthread_once(&slots_once, map_slots);
  return slots;
}

void observer_slot_end_timed(struct observer_slot *slot) {
  uint64_t unit = atomic_load_explicit(&slot->began_ns, memory_order_relaxed);
  if (unit != OBSERVER_IDLE && atomic_load_explicit(&slot->attention, memory_order_relaxed) == unit) {
    atomic_store_explicit(&slot->ended_ns, observer_clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&slot->ended_unit, unit, memory_order_release);
  }
  /* One unit, one exact end: the next unit's must not replace it before the monitor has read it. */
  atomic_store_explicit(&slot->attention, 0, memory_order_relaxed);
}

struct observer_slot_view observer_slot_read(const struct observer_slot *slot) {
  struct observer_slot_view view = {.unit = atomic_load_explicit(&slot->began_ns, memory_order_acquire)};
  view.thread = atomic_load_explicit(&slot->thread, memory_order_relaxed);
  view.generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
  view.polled = atomic_load_explicit(&slot->polled, memory_order_relaxed) != 0;
  view.suspicion_ns = atomic_load_explicit(&slot->suspicion_ns, memory_order_relaxed);
  view.threshold_ns = atomic_load_explicit(&slot->threshold_ns, memory_order_relaxed);
  view.early_interval_ns = atomic_load_explicit(&slot->early_interval_ns, memory_order_relaxed);
  view.interval_ns = atomic_load_explicit(&slot->interval_ns, memory_order_relaxed);
  view.owner_word = atomic_load_explicit(&slot->owner_word, memory_order_relaxed);
  view.progress_word = atomic_load_explicit(&slot->progress_word, memory_order_relaxed);
  view.head_ns = atomic_load_explicit(&slot->head_ns, memory_order_relaxed);
  view.excused = atomic_load_explicit(&slot->excused, memory_order_relaxed) != 0;
  /* began_ns is the sequence word: unchanged means that no owner changed in between. */
  atomic_thread_fence(memory_order_acquire);
  if (atomic_load_explicit(&slot->began_ns, memory_order_relaxed) != view.unit)
    view.unit = OBSERVER_IDLE;
  return view;
}

bool observer_slot_attend(struct observer_slot *slot, uint64_t unit) {
  atomic_store_explicit(&slot->attended_generation, atomic_load_explicit(&slot->generation, memory_order_relaxed),
                        memory_order_seq_cst);
  atomic_store_explicit(&slot->attention, unit, memory_order_seq_cst);
  if (atomic_load_explicit(&slot->began_ns, memory_order_seq_cst) == unit)
    return true;
  atomic_compare_exchange_strong_explicit(&slot->attention, &unit, 0, memory_order_relaxed, memory_order_relaxed);
  return false;
}

uint64_t observer_slot_ended_ns(struct observer_slot *slot, uint64_t unit) {
  uint64_t asked = unit;
  atomic_compare_exchange_strong_explicit(&slot->attention, &asked, 0, memory_order_relaxed, memory_order_relaxed);
  if (atomic_load_explicit(&slot->ended_unit, memory_order_acquire) != unit)
    return 0;
  return atomic_load_explicit(&slot->ended_ns, memory_order_relaxed);
}

static void set_limits(struct observer_slot *slot, bool polled, uint64_t suspicion_ns, uint64_t threshold_ns,
                       uint64_t early_interval_ns, uint64_t interval_ns) {
  /* A reader that sees any of these also sees that the former owner's unit is over (observer_slot_read). */
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&slot->polled, polled, memory_order_relaxed);
  atomic_store_explicit(&slot->suspicion_ns, suspicion_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->threshold_ns, threshold_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->early_interval_ns, early_interval_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->interval_ns, interval_ns, memory_order_relaxed);
}

void observer_slot_set_words(struct observer_slot *slot, uint64_t owner_word, uint64_t progress_word) {
  atomic_store_explicit(&slot->owner_word, owner_word, memory_order_relaxed);
  atomic_store_explicit(&slot->progress_word, progress_word, memory_order_relaxed);
}

/* The lower bits of the word in which libdispatch's queues and pthread's locks keep their owner are the thread's id: the
 * kernel's FUTEX_TID_MASK. */
int32_t observer_slot_owner(uint64_t owner_word) {
  uint32_t word = 0;
  return owner_word != 0 && observer_memory_read(owner_word, &word, sizeof word) ? (int32_t)(word & 0x3fffffff) : 0;
}

uint32_t observer_slot_progress(uint64_t progress_word) {
  uint64_t word = 0;
  if (progress_word == 0 || !observer_memory_read(progress_word, &word, sizeof word))
    return 0;
  return (uint32_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

void observer_slot_set_label(struct observer_slot *slot, const char *text, size_t bytes) {
  if (bytes > sizeof slot->label)
    bytes = sizeof slot->label;
  uint64_t words[OBSERVER_LABEL_WORDS] = {0};
  if (bytes > 0)
    memcpy(words, text, bytes);
  uint32_t sequence = atomic_load_explicit(&slot->label_sequence, memory_order_relaxed);
  atomic_store_explicit(&slot->label_sequence, sequence + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&slot->label_bytes, (uint32_t)bytes, memory_order_relaxed);
  for (int index = 0; index < OBSERVER_LABEL_WORDS; index++)
    atomic_store_explicit(&slot->label[index], words[index], memory_order_relaxed);
  atomic_store_explicit(&slot->label_sequence, sequence + 2, memory_order_release);
}

void observer_slot_label(const struct observer_slot *slot, struct observer_label *label) {
  uint32_t sequence = atomic_load_explicit(&slot->label_sequence, memory_order_acquire);
  label->bytes = atomic_load_explicit(&slot->label_bytes, memory_order_relaxed);
  for (int index = 0; index < OBSERVER_LABEL_WORDS; index++) {
    uint64_t word = atomic_load_explicit(&slot->label[index], memory_order_relaxed);
    memcpy(label->text + index * 8, &word, sizeof word);
  }
  atomic_thread_fence(memory_order_acquire);
  if (sequence % 2 != 0 || atomic_load_explicit(&slot->label_sequence, memory_order_relaxed) != sequence ||
      label->bytes > sizeof label->text)
    label->bytes = 0;
}

uint32_t observer_slot_configure(struct observer_slot *slot, bool polled, uint64_t suspicion_ns, uint64_t threshold_ns,
                                 uint64_t early_interval_ns, uint64_t interval_ns) {
  uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;
  if (generation == 0)
    generation = 1;
  set_limits(slot, polled, suspicion_ns, threshold_ns, early_interval_ns, interval_ns);
  observer_slot_set_words(slot, 0, 0);
  observer_slot_set_label(slot, NULL, 0);
  atomic_store_explicit(&slot->head_ns, 0, memory_order_relaxed);
  atomic_store_explicit(&slot->excused, 0, memory_order_relaxed);
  atomic_store_explicit(&slot->generation, generation, memory_order_release);
  return generation;
}

void observer_slot_limit(struct observer_slot *slot, bool polled, uint64_t suspicion_ns, uint64_t threshold_ns,
                         uint64_t early_interval_ns, uint64_t interval_ns) {
  set_limits(slot, polled, suspicion_ns, threshold_ns, early_interval_ns, interval_ns);
}

void observer_slot_disable(struct observer_slot *slot) {
  set_limits(slot, false, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX);
}
