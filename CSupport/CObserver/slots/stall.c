#define _GNU_SOURCE
#include "slots/observer_stall.h"

#include "clinux_clock.h"
#include "clinux_lock.h"
#include "clinux_process.h"

#include <string.h>
#include <sys/mman.h>
CLINUX_RESIDENT_CODE

static struct observer_stall *_Atomic entries;
static _Atomic uint32_t entries_process;
static struct clinux_lock entries_lock;
static _Atomic uint32_t entries_used;

struct observer_stall *observer_stall_table_if_any(void) {
  if (!clinux_process_is(atomic_load_explicit(&entries_process, memory_order_acquire)))
    return NULL;
  return atomic_load_explicit(&entries, memory_order_relaxed);
}

struct observer_stall *observer_stall_table(void) {
  struct observer_stall *table = observer_stall_table_if_any();
  if (table)
    return table;
  clinux_lock_take(&entries_lock);
  table = observer_stall_table_if_any();
  if (!table) {
    void *memory = mmap(NULL, sizeof(struct observer_stall) * OBSERVER_SLOTS_MAX, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    table = memory == MAP_FAILED ? NULL : memory;
    atomic_store_explicit(&entries, table, memory_order_relaxed);
    atomic_store_explicit(&entries_process, clinux_process_stamp(), memory_order_release);
  }
  clinux_lock_release(&entries_lock);
  return table;
}

uint32_t observer_stall_used(void) { return atomic_load_explicit(&entries_used, memory_order_relaxed); }

void observer_stall_reset(struct observer_stall *entry) {
  atomic_store_explicit(&entry->item, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&entry->age_ns, 0, memory_order_relaxed);
  atomic_store_explicit(&entry->threshold_ns, 0, memory_order_relaxed);
  atomic_store_explicit(&entry->suspected_ns, 0, memory_order_relaxed);
  atomic_store_explicit(&entry->suspected_cpu, 0, memory_order_relaxed);
  atomic_store_explicit(&entry->tid, 0, memory_order_relaxed);
}

void observer_stall_set_name(struct observer_stall *entry, uint32_t kind, const char *text, size_t bytes) {
  uint64_t words[OBSERVER_NAME_WORDS] = {0};
  if (bytes > sizeof words) {
    bytes = sizeof words;
    /* 10xxxxxx is a continuation byte in UTF-8. */
    while (bytes > 0 && ((uint8_t)text[bytes] & 0xc0) == 0x80)
      bytes--;
  }
  if (bytes > 0)
    memcpy(words, text, bytes);
  atomic_store_explicit(&entry->kind, kind, memory_order_relaxed);
  atomic_store_explicit(&entry->name_bytes, (uint32_t)bytes, memory_order_relaxed);
  for (int index = 0; index < OBSERVER_NAME_WORDS; index++)
    atomic_store_explicit(&entry->name[index], words[index], memory_order_relaxed);
}

void observer_stall_suspect(struct observer_stall *entry, int32_t tid) {
  atomic_store_explicit(&entry->suspected_ns, clinux_clock_ns(), memory_order_relaxed);
  atomic_store_explicit(&entry->suspected_cpu, tid == 0 ? 0 : clinux_clock_thread_cpu_ns(tid), memory_order_relaxed);
  atomic_store_explicit(&entry->tid, tid, memory_order_relaxed);
}

bool observer_stall_set(struct observer_stall *entry, uint64_t item, uint64_t age_ns, uint64_t threshold_ns,
                        int32_t tid) {
  uint64_t former = atomic_load_explicit(&entry->item, memory_order_relaxed);
  if (former != item && former != 0)
    atomic_store_explicit(&entry->item, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&entry->age_ns, age_ns, memory_order_relaxed);
  atomic_store_explicit(&entry->threshold_ns, threshold_ns, memory_order_relaxed);
  if (tid != 0)
    atomic_store_explicit(&entry->tid, tid, memory_order_relaxed);
  uintptr_t offset = (uintptr_t)entry - (uintptr_t)atomic_load_explicit(&entries, memory_order_relaxed);
  /* Tests use entries in other tables. */
  if (offset < sizeof *entry * OBSERVER_SLOTS_MAX && offset / sizeof *entry >= observer_stall_used())
    atomic_store_explicit(&entries_used, (uint32_t)(offset / sizeof *entry) + 1, memory_order_relaxed);
  atomic_store_explicit(&entry->item, item, memory_order_release);
  return former != item;
}

void observer_stall_read(const struct observer_stall *entry, struct observer_stall_snapshot *view) {
  view->item = atomic_load_explicit(&entry->item, memory_order_acquire);
  view->age_ns = atomic_load_explicit(&entry->age_ns, memory_order_relaxed);
  view->threshold_ns = atomic_load_explicit(&entry->threshold_ns, memory_order_relaxed);
  view->suspected_ns = atomic_load_explicit(&entry->suspected_ns, memory_order_relaxed);
  view->suspected_cpu = atomic_load_explicit(&entry->suspected_cpu, memory_order_relaxed);
  view->tid = atomic_load_explicit(&entry->tid, memory_order_relaxed);
  view->kind = atomic_load_explicit(&entry->kind, memory_order_relaxed);
  view->name_bytes = atomic_load_explicit(&entry->name_bytes, memory_order_relaxed);
  for (int index = 0; index < OBSERVER_NAME_WORDS; index++) {
    uint64_t word = atomic_load_explicit(&entry->name[index], memory_order_relaxed);
    memcpy(view->name + index * 8, &word, sizeof word);
  }
  if (view->name_bytes > sizeof view->name)
    view->name_bytes = 0;
  atomic_thread_fence(memory_order_acquire);
  if (atomic_load_explicit(&entry->item, memory_order_relaxed) != view->item)
    view->item = 0;
}

uint64_t observer_stall_age_ns(uint32_t slot, uint64_t item) {
  const struct observer_stall *table = observer_stall_table_if_any();
  if (!table || slot >= OBSERVER_SLOTS_MAX)
    return 0;
  struct observer_stall_snapshot view;
  observer_stall_read(&table[slot], &view);
  return view.item == item ? view.age_ns : 0;
}
