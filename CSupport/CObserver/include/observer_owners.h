/* The threads that work on what a slot watches, where that are several at a time: those of a pool. */
#ifndef OBSERVER_OWNERS_H
#define OBSERVER_OWNERS_H

#include "observer_base.h"

/* So many are followed. */
#define OBSERVER_OWNERS_MAX 256

/* A thread has one place for as long as it is one of them. */
struct observer_owners {
  _Atomic int32_t tids[OBSERVER_OWNERS_MAX]; /* 0: nobody has this place */
  _Atomic uint32_t used;                     /* places from here on have never been used */
};

/* Says that these COUNT threads are the owners from now on. Those that find no place are left out.
 * Async-signal-safe: yes. Threads: any, one at a time. */
void observer_owners_set(struct observer_owners *owners, const int32_t *tids, size_t count);

/* How many places have been used. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_owners_used(const struct observer_owners *owners) {
  return atomic_load_explicit(&owners->used, memory_order_acquire);
}

/* Who has PLACE; 0 for nobody. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS int32_t observer_owners_at(const struct observer_owners *owners, uint32_t place) {
  return atomic_load_explicit(&owners->tids[place], memory_order_relaxed);
}

/* The address of what says that. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_owners_address(const struct observer_owners *owners, uint32_t place) {
  return (uint64_t)(uintptr_t)&owners->tids[place];
}

#endif
