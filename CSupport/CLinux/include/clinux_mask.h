/* Signal masks of threads.
 *
 * A mask has signal N as bit N - 1, as in the kernel. The watchdog's own threads block all signals except those for
 * their own faults, so that the service's threads receive the service's signals. */
#ifndef CLINUX_MASK_H
#define CLINUX_MASK_H

#include "clinux_base.h"

#include <pthread.h>

/* Returns the calling thread's signal mask. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t clinux_mask_get(void);

/* Sets the calling thread's signal mask to MASK without the C library's own two signals. Returns the former mask.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t clinux_mask_set(uint64_t mask);

/* Sets *MASK to the signal mask of thread TID of this process, from /proc. Returns false if it is not available.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_mask_of_thread(int32_t tid, uint64_t *mask);

/* How a thread treats a signal, as far as can be observed. */
enum clinux_mask_answer {
  CLINUX_MASK_LETS_IN = 0, /* also if /proc is not available */
  CLINUX_MASK_KEEPS_OUT = 1,
  CLINUX_MASK_MAY_WAIT =
      2, /* sleeps without blocking it, which is also true during sigwaitinfo(2) for a blocked signal */
};

/* Returns whether thread TID of this process blocks SIGNAL. Sets *SLEEPS to the number of times that the thread has
 * gone to sleep (voluntary_ctxt_switches in proc(5)), or to 0 if it is not available. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS enum clinux_mask_answer clinux_mask_ask(int32_t tid, int signal, uint64_t *sleeps);

/* Returns the main thread's signal mask. While the C library blocks all signals there for a moment (fork, posix_spawn,
 * start of a thread), returns the last mask seen before, or 0 if there is none or /proc is not available.
 * Async-signal-safe: yes. Threads: any. */
uint64_t clinux_mask_of_main(void);

/* Returns the signal mask of the watchdog's own threads: all signals except those that report a fault of the thread
 * itself, and SIGPROF, with which the runtime and profilers stop threads to inspect them. Async-signal-safe: yes.
 * Threads: any. */
uint64_t clinux_mask_of_own_threads(void);

/* Makes threads created with ATTRIBUTES start with the signal mask of the watchdog's threads
 * (pthread_attr_setsigmask_np(3)), so that their creator need not change its own mask. SIGPROF is also blocked if the
 * caller or the main thread blocks it. Async-signal-safe: no. Threads: any. */
void clinux_mask_prepare(pthread_attr_t *attributes);

/* write(2) without signals: a pipe or socket without readers fails with EPIPE, and a file at the process's size limit
 * with EFBIG, without SIGPIPE or SIGXFSZ. A terminal accepts the output of a background job. Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS ssize_t clinux_write(int descriptor, const void *bytes, size_t count);

#endif
