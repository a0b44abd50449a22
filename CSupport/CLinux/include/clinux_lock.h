/* A lock that a child of fork(2) can use.
 *
 * Whoever held it in the parent is not in the child. There the lock is free: a library that a service links must not
 * keep the service's children waiting for a thread that they do not have. (The standard library's Mutex asks the kernel
 * for its owner by thread id, does not find it in a child, and ends the process.) What was being changed meanwhile is
 * half changed in the child, which must not use it: see clinux_process_is. */
#ifndef CLINUX_LOCK_H
#define CLINUX_LOCK_H

#include "clinux_base.h"

/* 0: free. Otherwise the stamp of the process that holds it, its lower 30 bits, above: bit 0, held; bit 1, somebody may
 * wait. */
struct clinux_lock {
  _Atomic uint32_t word;
};

/* Takes LOCK, and waits as long as another thread of this process has it. Async-signal-safe: no (may wait for the
 * thread that the signal interrupted). Threads: any, but never the monitor. */
void clinux_lock_take(struct clinux_lock *lock);

/* Takes LOCK if that needs no waiting. Returns whether it did. Async-signal-safe: yes. Threads: any. */
bool clinux_lock_try(struct clinux_lock *lock);

/* Releases LOCK. Async-signal-safe: yes. Threads: the one that took it, also when it has forked since. */
void clinux_lock_release(struct clinux_lock *lock);

/* Whether somebody has LOCK, or had it when this process was forked. Async-signal-safe: yes. Threads: any. */
static inline bool clinux_lock_is_taken(const struct clinux_lock *lock) {
  return atomic_load_explicit(&lock->word, memory_order_acquire) != 0;
}

#endif
