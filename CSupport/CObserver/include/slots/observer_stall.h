/* Ongoing stalls, reported by the monitor to the escalation thread, one entry for each slot. Names are part of the
 * table, so readers need no allocator. */
#ifndef OBSERVER_STALL_H
#define OBSERVER_STALL_H

#include "base/observer_base.h"

/* Length of a name in words of eight bytes. */
enum { OBSERVER_NAME_WORDS = 12 };

struct observer_stall {
  /* Written by the monitor. */
  _Atomic uint64_t item; /* 0: none; written last */
  _Atomic uint64_t age_ns;
  _Atomic uint64_t threshold_ns;
  _Atomic uint64_t suspected_ns;
  _Atomic uint64_t suspected_cpu; /* CPU time at suspected_ns; 0: unknown */
  _Atomic int32_t tid;            /* the thread seen last; 0: unknown */

  /* Written by the disk thread. */
  _Atomic uint64_t recorded; /* the work item that has been saved */

  /* Written by the slot's owner while the slot is not marked. */
  _Atomic uint32_t kind; /* kind of the source, as in stall files */
  _Atomic uint32_t name_bytes;
  _Atomic uint64_t name[OBSERVER_NAME_WORDS];
};

struct observer_stall_snapshot {
  uint64_t item; /* 0: no stall */
  uint64_t age_ns;
  uint64_t threshold_ns;
  uint64_t suspected_ns;
  uint64_t suspected_cpu;
  int32_t tid;
  uint32_t kind;
  uint32_t name_bytes;
  char name[OBSERVER_NAME_WORDS * 8];
};

/* Returns the process's table of OBSERVER_SLOTS_MAX entries, or NULL if there is no memory. A child of fork(2) has its
 * own table. Async-signal-safe: no (the first call maps memory). Threads: any. */
struct observer_stall *observer_stall_table(void);

/* Returns the table, or NULL if it has not been created. Async-signal-safe: yes. Threads: any. */
struct observer_stall *observer_stall_table_if_any(void);

/* Returns the index after the last entry that ever had a stall. Async-signal-safe: yes. Threads: any. */
uint32_t observer_stall_used(void);

/* Clears the stall in ENTRY, for another watchdog or owner. Async-signal-safe: yes. Threads: any, while the monitor
 * does not read the slot's work item. */
void observer_stall_reset(struct observer_stall *entry);

/* Sets the source's KIND and name, the BYTES bytes of TEXT, truncated between two characters to at most
 * OBSERVER_NAME_WORDS * 8 bytes. Async-signal-safe: yes. Threads: the slot's owner. */
void observer_stall_set_name(struct observer_stall *entry, uint32_t kind, const char *text, size_t bytes);

/* Records that work on thread TID is suspected, with the current time and the thread's CPU time. Async-signal-safe:
 * yes. Threads: the monitor, a sampler. */
CLINUX_NO_LOCKS void observer_stall_suspect(struct observer_stall *entry, int32_t tid);

/* Records that ITEM is stalled on thread TID. Returns whether ITEM is new. Async-signal-safe: yes. Threads: the
 * monitor. */
CLINUX_NO_LOCKS bool observer_stall_set(struct observer_stall *entry, uint64_t item, uint64_t age_ns,
                                        uint64_t threshold_ns, int32_t tid);

/* Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_stall_clear(struct observer_stall *entry) {
  if (__builtin_expect(atomic_load_explicit(&entry->item, memory_order_relaxed) != 0, 0))
    atomic_store_explicit(&entry->item, 0, memory_order_release);
}

/* Return the stalled work item (0: none), and whether there is one. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_stall_item(const struct observer_stall *entry) {
  return atomic_load_explicit(&entry->item, memory_order_acquire);
}
static inline CLINUX_NO_LOCKS bool observer_stall_is_stalled(const struct observer_stall *entry) {
  return observer_stall_item(entry) != 0;
}

/* Records that ITEM has been saved to a file. Async-signal-safe: yes. Threads: the disk thread. */
static inline void observer_stall_set_recorded(struct observer_stall *entry, uint64_t item) {
  atomic_store_explicit(&entry->recorded, item, memory_order_release);
}

/* Whether ITEM is still stalled and has no file. Async-signal-safe: yes. Threads: any. */
static inline bool observer_stall_is_unrecorded(const struct observer_stall *entry, uint64_t item) {
  return atomic_load_explicit(&entry->item, memory_order_acquire) == item &&
         atomic_load_explicit(&entry->recorded, memory_order_acquire) != item;
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS char observer_stall_name_byte(const struct observer_stall_snapshot *view, long index) {
  return index >= 0 && index < (long)view->name_bytes ? view->name[index] : '\0';
}

/* Reads ENTRY; without a stall if ENTRY changes meanwhile. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void observer_stall_read(const struct observer_stall *entry, struct observer_stall_snapshot *view);

/* Returns ITEM's age in SLOT; 0: not stalled. Async-signal-safe: yes. Threads: any. */
uint64_t observer_stall_age_ns(uint32_t slot, uint64_t item);

#endif
