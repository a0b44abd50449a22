#define _GNU_SOURCE
#include "clinux_lock.h"

#include "clinux_process.h"
#include "clinux_wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HELD = 1, AWAITED = 2, STATE_BITS = 2 };

enum { SPINS = 100 };

static uint32_t of_process(void) { return clinux_process_stamp() << STATE_BITS | HELD; }

static bool is_free(uint32_t word, uint32_t mine) { return word == 0 || word >> STATE_BITS != mine >> STATE_BITS; }

static bool take(struct clinux_lock *lock, uint32_t taken) {
  uint32_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);
  while (is_free(word, taken))
    if (atomic_compare_exchange_weak_explicit(&lock->word, &word, taken, memory_order_acquire, memory_order_relaxed))
      return true;
  return false;
}

bool clinux_lock_try(struct clinux_lock *lock) { return take(lock, of_process()); }

void clinux_lock_take(struct clinux_lock *lock) {
  uint32_t mine = of_process();
  for (int spin = 0; spin < SPINS; spin++)
    if (take(lock, mine))
      return;
  /* Keeps AWAITED set, because other threads might also wait. */
  while (!take(lock, mine | AWAITED)) {
    uint32_t word = mine;
    atomic_compare_exchange_strong_explicit(&lock->word, &word, mine | AWAITED, memory_order_relaxed,
                                            memory_order_relaxed);
    clinux_wait_in_kernel(&lock->word, mine | AWAITED, UINT64_MAX);
  }
}

void clinux_lock_release(struct clinux_lock *lock) {
  uint32_t word = atomic_exchange_explicit(&lock->word, 0, memory_order_release);
  if ((word & AWAITED) == 0)
    return;
  int saved_errno = errno;
  syscall(SYS_futex, &lock->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
  errno = saved_errno;
}
