/* The clocks, in nanoseconds. */
#ifndef CLINUX_CLOCK_H
#define CLINUX_CLOCK_H

#include "clinux_base.h"
#include "clinux_test_clock.h"

#include <time.h>

/* clock_gettime(2) of the C library itself, also where a preloaded library has another one. Set before main.
 * Async-signal-safe: yes. Threads: any. */
extern int (*clinux_clock_gettime)(clockid_t clock, struct timespec *time);

/* TIME in nanoseconds: 0 for a negative one, INT64_MAX for one of more than 292 years.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_nanoseconds(struct timespec time) {
  if (time.tv_sec < 0)
    return 0;
  if (time.tv_sec >= INT64_MAX / INT64_C(1000000000))
    return INT64_MAX;
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* The nanoseconds from BEGIN to END, times of one clock or counts: 0 where END is before BEGIN.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_between_ns(uint64_t begin, uint64_t end) {
  return end > begin ? end - begin : 0;
}

/* Nanoseconds of CLOCK, by the test clock where one is installed.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_read_ns(clockid_t clock) {
  /* In C code of release builds there is no seam: its call changes what left-over addresses on a stack look like. */
#if defined(DEBUG) || defined(__swift__)
  const struct clinux_test_clock *test = clinux_test_clock_installed();
  if (__builtin_expect(test != NULL, 0))
    return test->now_ns(clock);
#endif
  struct timespec now = {0};
  clinux_clock_gettime(clock, &now);
  return clinux_clock_nanoseconds(now);
}

/* Nanoseconds of CLOCK_MONOTONIC as of the last kernel tick or the one before: about a third of the cost of the exact
 * clock. Read through the vDSO, without a system call. Never 0.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_coarse_ns(void) {
  return clinux_clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

/* The length of a kernel tick, in nanoseconds, by which the coarse clock moves on: 1 to 10 ms.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_coarse_resolution_ns(void) {
  struct timespec resolution;
  clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
  return (uint64_t)resolution.tv_sec * UINT64_C(1000000000) + (uint64_t)resolution.tv_nsec;
}

/* How much older than the truth the coarse clock can be, in nanoseconds. A tick moves it on by whole ticks only, so
 * that it can be one behind just then, and two before the next one comes (timekeeping_advance in the kernel's
 * kernel/time/timekeeping.c). Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_coarse_doubt_ns(void) {
  return 2 * clinux_clock_coarse_resolution_ns();
}

/* Nanoseconds of CLOCK_MONOTONIC, exact.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_ns(void) { return clinux_clock_read_ns(CLOCK_MONOTONIC); }

/* Nanoseconds of CLOCK_BOOTTIME, by which the kernel tells when a thread was started.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_boot_ns(void) { return clinux_clock_read_ns(CLOCK_BOOTTIME); }

/* Nanoseconds since 1970 of CLOCK_REALTIME: for people, never for durations.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_wall_ns(void) { return clinux_clock_read_ns(CLOCK_REALTIME); }

/* The clock of the processor time of thread TID of this process. The id is built as clock_getcpuclockid(3) and the
 * kernel's include/linux/posix-timers.h (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED) have it: that works for a thread id,
 * where pthread_getcpuclockid needs a live pthread_t. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS clockid_t clinux_clock_of_thread(pid_t tid) {
  return (clockid_t)((~(unsigned)tid << 3) | 6u);
}

/* Nanoseconds that thread TID of this process has spent on a processor, or 0 when there is no such thread.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_thread_cpu_ns(pid_t tid) {
  struct timespec used;
  if (clinux_clock_gettime(clinux_clock_of_thread(tid), &used) != 0)
    return 0;
  return clinux_clock_nanoseconds(used);
}

#endif
