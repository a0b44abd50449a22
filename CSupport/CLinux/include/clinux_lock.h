/* A lock that is free in a child of fork(2), even if a thread of the parent held it. */
#ifndef CLINUX_LOCK_H
#define CLINUX_LOCK_H

#include "clinux_base.h"

/* 0: free. Otherwise bit 0: held; bit 1: a thread might be waiting; above: the holding process's stamp. */
struct clinux_lock {
  _Atomic uint32_t word;
};

/* Acquires LOCK, waiting while another thread of this process holds it. Async-signal-safe: no (might wait for the
 * interrupted thread). Threads: any except the monitor. */
void clinux_lock_take(struct clinux_lock *lock);

/* Tries to acquire LOCK without waiting. Returns whether LOCK was acquired. Async-signal-safe: yes. Threads: any. */
bool clinux_lock_try(struct clinux_lock *lock);

/* Async-signal-safe: yes. Threads: the owner, even if it has forked since. */
void clinux_lock_release(struct clinux_lock *lock);

/* Whether LOCK is held, or was held when this process was forked. Async-signal-safe: yes. Threads: any. */
static inline bool clinux_lock_is_taken(const struct clinux_lock *lock) {
  return atomic_load_explicit(&lock->word, memory_order_acquire) != 0;
}

#endif
