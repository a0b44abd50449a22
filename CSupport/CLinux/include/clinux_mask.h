/* Signal masks of threads, with signal N as bit N - 1, as in the kernel. */
#ifndef CLINUX_MASK_H
#define CLINUX_MASK_H

#include "clinux_base.h"

#include <pthread.h>

/* Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t clinux_mask_get(void);

/* Sets the calling thread's signal mask to MASK, but leaves the C library's two internal signals unblocked. Returns the
 * former mask. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t clinux_mask_set(uint64_t mask);

/* Sets *MASK to the signal mask of thread TID of this process. Returns false if /proc is not available.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_mask_of_thread(int32_t tid, uint64_t *mask);

enum clinux_mask_answer {
  CLINUX_MASK_LETS_IN = 0, /* also if /proc is not available */
  CLINUX_MASK_KEEPS_OUT = 1,
  CLINUX_MASK_MAY_WAIT = 2, /* sleeps with the signal unblocked, perhaps by sigwaitinfo(2) */
};

/* Returns how thread TID of this process treats SIGNAL. Sets *SLEEPS to its voluntary_ctxt_switches (proc(5)), or to
 * 0 if not available. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS enum clinux_mask_answer clinux_mask_ask(int32_t tid, int signal, uint64_t *sleeps);

/* Whether thread TID of this process sleeps without blocking SIGNAL. False in system calls that replace the signal mask
 * while they wait, such as sigwaitinfo(2) and ppoll(2). Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_mask_lets_in_asleep(int32_t tid, int signal);

/* Returns the main thread's signal mask; 0: unknown. While the C library briefly blocks all of that thread's signals,
 * returns the last known mask. Async-signal-safe: yes. Threads: any. */
uint64_t clinux_mask_of_main(void);

/* Returns the signal mask of the watchdog's own threads. They block all signals except SIGPROF, which the runtime and
 * profilers use to inspect threads, and the signals of faults. Async-signal-safe: yes. Threads: any. */
uint64_t clinux_mask_of_own_threads(void);

/* Makes threads created with ATTRIBUTES start with clinux_mask_of_own_threads. SIGPROF is also blocked if the caller
 * or the main thread blocks it. Async-signal-safe: no. Threads: any. */
void clinux_mask_prepare(pthread_attr_t *attributes);

/* write(2) without signals: EPIPE and EFBIG raise no SIGPIPE or SIGXFSZ, and a terminal accepts the output of a
 * background job. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS ssize_t clinux_write(int descriptor, const void *bytes, size_t count);

#endif
