/* Bounded waiting for a 32-bit word to change, without a lock: a thin face of futex(2). */
#ifndef CLINUX_WAIT_H
#define CLINUX_WAIT_H

#include "clinux_base.h"

/* Waits until *WORD is no longer EXPECTED, somebody calls clinux_wake on it, or CLOCK_MONOTONIC reaches DEADLINE_NS,
 * whichever is first. May also return early without any of them: the caller looks again. A DEADLINE_NS in the past
 * returns at once; UINT64_MAX waits without a bound (never used by the monitor).
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* clinux_wait by the kernel's clock, also where a test clock is installed: for waits that simulated time cannot end.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wait_in_kernel(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* Waits for DURATION_NS; may return early.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_pause_ns(uint64_t duration_ns);

/* Wakes every thread that waits for WORD.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wake(const _Atomic uint32_t *word);

/* Adds one to *WORD (releasing what was written before) and wakes every thread that waits for it.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_notify(_Atomic uint32_t *word) {
  atomic_fetch_add_explicit(word, 1, memory_order_release);
  clinux_wake(word);
}

/* *WORD, acquiring what was written before it.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t clinux_word(const _Atomic uint32_t *word) {
  return atomic_load_explicit(word, memory_order_acquire);
}

/* What a thread waits for: to be woken, or stopped. All zero is one that nobody has woken. */
struct clinux_wakeup {
  _Atomic uint32_t word; /* how often it was woken */
  _Atomic uint32_t stop; /* 1: the thread is to end */
};

/* How often it was woken, to be asked before looking for what there is to do.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t clinux_wakeup_seen(const struct clinux_wakeup *wakeup) {
  return clinux_word(&wakeup->word);
}

/* Wakes who waits.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_wakeup_notify(struct clinux_wakeup *wakeup) { clinux_notify(&wakeup->word); }

/* Makes who waits end.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_wakeup_stop(struct clinux_wakeup *wakeup) {
  atomic_store_explicit(&wakeup->stop, 1, memory_order_release);
  clinux_notify(&wakeup->word);
}

/* Whether the thread is to end.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool clinux_wakeup_stopping(const struct clinux_wakeup *wakeup) {
  return atomic_load_explicit(&wakeup->stop, memory_order_acquire) != 0;
}

/* Waits until it is woken once more than SEEN, or until DEADLINE_NS (clinux_wait).
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_wakeup_wait(const struct clinux_wakeup *wakeup, uint32_t seen,
                                                      uint64_t deadline_ns) {
  clinux_wait(&wakeup->word, seen, deadline_ns);
}

#endif
