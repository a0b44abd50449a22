/* Bounded waiting for a 32-bit word to change, without a lock: a thin wrapper of futex(2). */
#ifndef CLINUX_WAIT_H
#define CLINUX_WAIT_H

#include "clinux_base.h"

/* Waits until *WORD differs from EXPECTED, clinux_wake is called on it, or CLOCK_MONOTONIC reaches DEADLINE_NS. Can
 * also return spuriously: the caller must check again. A DEADLINE_NS in the past returns at once; UINT64_MAX waits
 * without a limit (never used by the monitor). Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* clinux_wait by the kernel's clock, even if a test clock is installed: for waits that simulated time cannot end.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wait_in_kernel(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* Waits for DURATION_NS; can return early. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_pause_ns(uint64_t duration_ns);

/* Wakes all threads that wait for WORD. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wake(const _Atomic uint32_t *word);

/* Increments *WORD with release ordering and wakes all threads that wait for it. Async-signal-safe: yes. Threads:
 * any. */
static inline CLINUX_NO_LOCKS void clinux_notify(_Atomic uint32_t *word) {
  atomic_fetch_add_explicit(word, 1, memory_order_release);
  clinux_wake(word);
}

/* Returns *WORD with acquire ordering. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t clinux_word(const _Atomic uint32_t *word) {
  return atomic_load_explicit(word, memory_order_acquire);
}

/* A wakeup and stop request for a thread. All zero initially. */
struct clinux_wakeup {
  _Atomic uint32_t word; /* number of wakeups */
  _Atomic uint32_t stop; /* 1: the thread must end */
};

/* Returns the number of wakeups. Must be called before checking for work. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t clinux_wakeup_seen(const struct clinux_wakeup *wakeup) {
  return clinux_word(&wakeup->word);
}

/* Wakes the waiting thread. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_wakeup_notify(struct clinux_wakeup *wakeup) { clinux_notify(&wakeup->word); }

/* Requests that the waiting thread ends. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_wakeup_stop(struct clinux_wakeup *wakeup) {
  atomic_store_explicit(&wakeup->stop, 1, memory_order_release);
  clinux_notify(&wakeup->word);
}

/* Whether the thread must end. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool clinux_wakeup_stopping(const struct clinux_wakeup *wakeup) {
  return atomic_load_explicit(&wakeup->stop, memory_order_acquire) != 0;
}

/* Waits until the number of wakeups differs from SEEN, or until DEADLINE_NS (clinux_wait). Async-signal-safe: yes.
 * Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_wakeup_wait(const struct clinux_wakeup *wakeup, uint32_t seen,
                                                      uint64_t deadline_ns) {
  clinux_wait(&wakeup->word, seen, deadline_ns);
}

#endif
