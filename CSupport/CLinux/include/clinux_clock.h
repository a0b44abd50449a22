/* All times are in nanoseconds. */
#ifndef CLINUX_CLOCK_H
#define CLINUX_CLOCK_H

#include "clinux_base.h"
#include "clinux_test_clock.h"

#include <time.h>

/* The C library's own clock_gettime(2), even if a preloaded library replaces the function. Set before main.
 * Async-signal-safe: yes. Threads: any. */
extern int (*clinux_clock_gettime)(clockid_t clock, struct timespec *time);

/* Returns TIME in nanoseconds, limited to the range from 0 to INT64_MAX. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_nanoseconds(struct timespec time) {
  if (time.tv_sec < 0)
    return 0;
  if (time.tv_sec >= INT64_MAX / INT64_C(1000000000))
    return INT64_MAX;
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* Returns END - BEGIN, or 0 if END is less than BEGIN. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_between_ns(uint64_t begin, uint64_t end) {
  return end > begin ? end - begin : 0;
}

/* Returns the time of CLOCK, from the test clock if installed. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_read_ns(clockid_t clock) {
  /* Release builds of C code omit the test clock: its call would leave additional addresses on the stack. */
#if defined(DEBUG) || defined(__swift__)
  const struct clinux_test_clock *test = clinux_test_clock_installed();
  if (__builtin_expect(test != NULL, 0))
    return test->now_ns(clock);
#endif
  struct timespec now = {0};
  clinux_clock_gettime(clock, &now);
  return clinux_clock_nanoseconds(now);
}

/* Returns CLOCK_MONOTONIC as of one of the last two kernel ticks, at a third of the exact clock's cost. Never 0.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_coarse_ns(void) {
  return clinux_clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

/* Returns the coarse clock's resolution, one kernel tick: 1 to 10 ms. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_coarse_resolution_ns(void) {
  struct timespec resolution;
  clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
  return (uint64_t)resolution.tv_sec * UINT64_C(1000000000) + (uint64_t)resolution.tv_nsec;
}

/* Returns the coarse clock's maximum lag: two ticks (timekeeping_advance in kernel/time/timekeeping.c).
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_coarse_error_ns(void) {
  return 2 * clinux_clock_coarse_resolution_ns();
}

/* Returns CLOCK_MONOTONIC, exact. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_ns(void) { return clinux_clock_read_ns(CLOCK_MONOTONIC); }

/* Returns CLOCK_BOOTTIME, the clock of threads' start times in /proc. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_boot_ns(void) { return clinux_clock_read_ns(CLOCK_BOOTTIME); }

/* Returns CLOCK_REALTIME. For display only, never for durations. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_wall_ns(void) { return clinux_clock_read_ns(CLOCK_REALTIME); }

/* Returns the CPU-time clock of thread TID of this process, built as in clock_getcpuclockid(3) and
 * include/linux/posix-timers.h: pthread_getcpuclockid needs a live pthread_t. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS clockid_t clinux_clock_of_thread(pid_t tid) {
  return (clockid_t)((~(unsigned)tid << 3) | 6u);
}

/* Returns the CPU time of thread TID of this process; 0 if there is no such thread. Async-signal-safe: yes. Threads:
 * any. */
static inline CLINUX_NO_LOCKS uint64_t clinux_clock_thread_cpu_ns(pid_t tid) {
  struct timespec used;
  if (clinux_clock_gettime(clinux_clock_of_thread(tid), &used) != 0)
    return 0;
  return clinux_clock_nanoseconds(used);
}

#endif
