/* Bounded waiting for a 32-bit word to change (futex(2)). */
#ifndef CLINUX_WAIT_H
#define CLINUX_WAIT_H

#include "clinux_base.h"

/* Waits until *WORD differs from EXPECTED, clinux_wake is called on it, or CLOCK_MONOTONIC reaches DEADLINE_NS;
 * UINT64_MAX: without a limit. Can return spuriously. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* clinux_wait by the kernel's clock, even if a test clock is installed. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wait_in_kernel(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* Can return early. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_pause_ns(uint64_t duration_ns);

/* Wakes all threads that wait for WORD. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void clinux_wake(const _Atomic uint32_t *word);

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_notify(_Atomic uint32_t *word) {
  atomic_fetch_add_explicit(word, 1, memory_order_release);
  clinux_wake(word);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t clinux_word(const _Atomic uint32_t *word) {
  return atomic_load_explicit(word, memory_order_acquire);
}

/* Wakeups and a stop request for a thread. All zero initially. */
struct clinux_wakeup {
  _Atomic uint32_t word;
  _Atomic uint32_t stop; /* 1: requested */
};

/* Returns the number of wakeups. Must be called before checking for work. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t clinux_wakeup_seen(const struct clinux_wakeup *wakeup) {
  return clinux_word(&wakeup->word);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_wakeup_notify(struct clinux_wakeup *wakeup) { clinux_notify(&wakeup->word); }

/* Requests that the waiting thread ends. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void clinux_wakeup_stop(struct clinux_wakeup *wakeup) {
  atomic_store_explicit(&wakeup->stop, 1, memory_order_release);
  clinux_notify(&wakeup->word);
}

/* Async-signal-safe: yes. Threads: any. */
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
