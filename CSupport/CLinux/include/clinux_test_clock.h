/* Test seam: a clock that replaces the kernel's. Services never install one. */
#ifndef CLINUX_TEST_CLOCK_H
#define CLINUX_TEST_CLOCK_H

#include "clinux_base.h"

#include <time.h>

enum clinux_thread_step {
  CLINUX_THREAD_CREATED,
  CLINUX_THREAD_REFUSED,
  CLINUX_THREAD_BEGAN, /* reported by the new thread */
  CLINUX_THREAD_ENDS,
};

struct clinux_test_clock {
  /* In nanoseconds. Async-signal-safe. */
  uint64_t (*now_ns)(clockid_t clock);
  /* Replaces clinux_wait, with the same contract. */
  void (*wait)(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns);
  bool (*is_simulated)(void);
  /* Reports a step of a watchdog thread. */
  void (*thread_reached)(enum clinux_thread_step step);
};

extern _Atomic(const struct clinux_test_clock *) clinux_test_clock;

/* NULL if none is installed. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS const struct clinux_test_clock *clinux_test_clock_installed(void) {
  return atomic_load_explicit(&clinux_test_clock, memory_order_relaxed);
}

/* Installs CLOCK, which must never be freed, for the rest of the process. Async-signal-safe: yes. Threads: any,
 * before a watchdog starts. */
static inline void clinux_test_clock_install(const struct clinux_test_clock *clock) {
  atomic_store_explicit(&clinux_test_clock, clock, memory_order_release);
}

/* Async-signal-safe: yes without a test clock. Threads: as documented for STEP. */
static inline void clinux_test_clock_thread_reached(enum clinux_thread_step step) {
  const struct clinux_test_clock *test = clinux_test_clock_installed();
  if (test)
    test->thread_reached(step);
}

#endif
