/* The pool threads that work on a slot's work at the same time. */
#ifndef OBSERVER_OWNERS_H
#define OBSERVER_OWNERS_H

#include "base/observer_base.h"

#define OBSERVER_OWNERS_MAX 256

struct observer_owners {
  _Atomic int32_t tids[OBSERVER_OWNERS_MAX]; /* 0: free */
  _Atomic uint32_t used;                     /* later entries were never used */
};

/* Sets the owners to the COUNT threads TIDS, up to OBSERVER_OWNERS_MAX. Async-signal-safe: yes. Threads: any, one at a
 * time. */
void observer_owners_set(struct observer_owners *owners, const int32_t *tids, size_t count);

/* Return the number of entries used so far, the thread in entry PLACE (0: none), and the address of the thread's ID.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_owners_used(const struct observer_owners *owners) {
  return atomic_load_explicit(&owners->used, memory_order_acquire);
}
static inline CLINUX_NO_LOCKS int32_t observer_owners_at(const struct observer_owners *owners, uint32_t place) {
  return atomic_load_explicit(&owners->tids[place], memory_order_relaxed);
}
static inline CLINUX_NO_LOCKS uint64_t observer_owners_address(const struct observer_owners *owners, uint32_t place) {
  return (uint64_t)(uintptr_t)&owners->tids[place];
}

#endif
