/* The stalls that go on: what the monitor tells the escalation thread, who decides what is done about a stall that
 * does not end.
 *
 * One entry for each target slot, in a table that is never freed. It also has a name for the source, in fixed memory:
 * who asks may have to do without the allocator. */
#ifndef OBSERVER_STALL_H
#define OBSERVER_STALL_H

#include "observer_base.h"

/* The longest name, in words of eight bytes; what is longer is cut. */
enum { OBSERVER_NAME_WORDS = 12 };

struct observer_stall {
  /* Written by the monitor, read by the escalation thread. */
  _Atomic uint64_t item; /* the work item that is stalled, 0 when none is; written last */
  _Atomic uint64_t age_ns;
  _Atomic uint64_t threshold_ns;
  _Atomic uint64_t suspected_ns;  /* when the monitor first looked at the work item's thread, CLOCK_MONOTONIC, */
  _Atomic uint64_t suspected_cpu; /* and that thread's processor time then; 0 if unknown */
  _Atomic int32_t tid;            /* the thread that was seen last; 0 if unknown */

  /* Written by the disk thread, read by the one that notes hangs. */
  _Atomic uint64_t recorded; /* the work item whose stall has its file */

  /* Written by the slot's owner while the slot is not marked, read by the escalation thread. */
  _Atomic uint32_t kind; /* a number for people's word for what it is; as in files */
  _Atomic uint32_t name_bytes;
  _Atomic uint64_t name[OBSERVER_NAME_WORDS];
};

/* A snapshot of an entry. */
struct observer_stall_snapshot {
  uint64_t item; /* 0: nothing is stalled there */
  uint64_t age_ns;
  uint64_t threshold_ns;
  uint64_t suspected_ns;
  uint64_t suspected_cpu;
  int32_t tid;
  uint32_t kind;
  uint32_t name_bytes;
  char name[OBSERVER_NAME_WORDS * 8];
};

/* The process's table, OBSERVER_SLOTS_MAX entries, zero-filled and resident only as far as it is used; NULL when there
 * is no memory for it. The same pointer at every call; another one in a child of fork(2). Async-signal-safe: no (the
 * first call maps memory). Threads: any. */
struct observer_stall *observer_stall_table(void);

/* The same, NULL when this process has not asked for it. Async-signal-safe: yes. Threads: any. */
struct observer_stall *observer_stall_table_if_any(void);

/* How many entries of the table, from the first one on, have ever been of a stall. Async-signal-safe: yes. Threads:
 * any.
 */
uint32_t observer_stall_used(void);

/* Forgets everything of ENTRY but its name: another watchdog begins, or another owner has the slot.
 * Async-signal-safe: yes. Threads: any, while no monitor looks at the slot's work item. */
void observer_stall_reset(struct observer_stall *entry);

/* Says that the source of the slot that ENTRY belongs to is of this KIND, and names it: the BYTES bytes of TEXT, of
 * which OBSERVER_NAME_WORDS * 8 are kept, cut between two characters. Async-signal-safe: yes. Threads: the slot's
 * owner. */
void observer_stall_set_name(struct observer_stall *entry, uint32_t kind, const char *text, size_t bytes);

/* Remembers that the monitor looks at the thread TID for the first time, for a work item that may become a stall.
 * Async-signal-safe: yes. Threads: the monitor, a sampler. */
CLINUX_NO_LOCKS void observer_stall_suspect(struct observer_stall *entry, int32_t tid);

/* Tells that ITEM is stalled on thread TID and how old it is. Returns whether the entry did not have ITEM before.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS bool observer_stall_set(struct observer_stall *entry, uint64_t item, uint64_t age_ns,
                                        uint64_t threshold_ns, int32_t tid);

/* Tells that nothing is stalled. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_stall_clear(struct observer_stall *entry) {
  if (__builtin_expect(atomic_load_explicit(&entry->item, memory_order_relaxed) != 0, 0))
    atomic_store_explicit(&entry->item, 0, memory_order_release);
}

/* Whether something is stalled. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_stall_is_stalled(const struct observer_stall *entry) {
  return atomic_load_explicit(&entry->item, memory_order_acquire) != 0;
}

/* Says that the file of the stall ITEM is there. Async-signal-safe: yes. Threads: the disk thread. */
static inline void observer_stall_set_recorded(struct observer_stall *entry, uint64_t item) {
  atomic_store_explicit(&entry->recorded, item, memory_order_release);
}

/* Whether ITEM is stalled still, and has no file. Async-signal-safe: yes. Threads: any. */
static inline bool observer_stall_is_unrecorded(const struct observer_stall *entry, uint64_t item) {
  return atomic_load_explicit(&entry->item, memory_order_acquire) == item &&
         atomic_load_explicit(&entry->recorded, memory_order_acquire) != item;
}

/* Byte INDEX of the name in VIEW. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS char observer_stall_name_byte(const struct observer_stall_snapshot *view, long index) {
  return index >= 0 && index < (long)view->name_bytes ? view->name[index] : '\0';
}

/* Reads ENTRY; an entry that changes meanwhile counts as not stalled, the next reading sees it.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void observer_stall_read(const struct observer_stall *entry, struct observer_stall_snapshot *view);

#endif
