#define _GNU_SOURCE
#include "clinux_wait.h"

#include "clinux_clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

_Atomic(const struct clinux_test_clock *) clinux_test_clock;

void clinux_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
  const struct clinux_test_clock *test = clinux_test_clock_installed();
  if (__builtin_expect(test != NULL, 0))
    test->wait(word, expected, deadline_ns);
  else
    clinux_wait_in_kernel(word, expected, deadline_ns);
}

void clinux_wait_in_kernel(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
  int saved_errno = errno;
  struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
                              .tv_nsec = (long)(deadline_ns % UINT64_C(1000000000))};
  /* FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, so interruptions do not prolong the wait. */
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
          deadline_ns == UINT64_MAX ? NULL : &deadline, NULL, FUTEX_BITSET_MATCH_ANY);
  errno = saved_errno;
}

void clinux_pause_ns(uint64_t duration_ns) {
  static const _Atomic uint32_t unchanging;
  clinux_wait(&unchanging, 0, clinux_clock_ns() + duration_ns);
}

void clinux_wake(const _Atomic uint32_t *word) {
  int saved_errno = errno;
  syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
  errno = saved_errno;
}
