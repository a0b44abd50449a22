/* Which signals a thread lets in.
 *
 * A mask has signal N as bit N - 1, as the kernel has it. The watchdog's own threads block everything that is not a
 * fault of their own: what the service is sent is for the service's threads. While they run the application's code
 * they let in what the application's threads let in, because programs and threads that are started there inherit the
 * mask.
 */
#ifndef CLINUX_MASK_H
#define CLINUX_MASK_H

#include "clinux_base.h"

#include <pthread.h>

/* What the calling thread blocks. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t clinux_mask_get(void);

/* Makes the calling thread block MASK and nothing else, except for the C library's own two signals. Returns what it
 * blocked before. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t clinux_mask_set(uint64_t mask);

/* Sets *MASK to what thread TID of this process blocks, as /proc tells it. Returns false when it does not tell.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_mask_of_thread(int32_t tid, uint64_t *mask);

/* What a thread does with a signal, as far as can be seen. */
enum clinux_mask_answer {
  CLINUX_MASK_LETS_IN = 0, /* also when /proc does not tell */
  CLINUX_MASK_KEEPS_OUT = 1,
  CLINUX_MASK_MAY_WAIT =
      2, /* it sleeps and lets it in: so does who waits for signals that he blocks (sigwaitinfo(2)) */
};

/* Whether thread TID of this process blocks SIGNAL, and not just because the C library blocks everything for a moment.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS enum clinux_mask_answer clinux_mask_ask(int32_t tid, int signal);

/* Whether thread TID of this process blocks SIGNAL, and not just because the C library blocks everything for a moment.
 * False when /proc does not tell. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_mask_keeps_out(int32_t tid, int signal);

/* What the main thread blocks. While the C library blocks everything for a moment there (fork, posix_spawn, the start
 * of a thread), what was seen before; nothing when nothing was, or /proc does not tell.
 * Async-signal-safe: yes. Threads: any. */
uint64_t clinux_mask_of_main(void);

/* What is blocked by threads of the watchdog's own: all but the signals that tell of a fault in the thread itself, and
 * SIGPROF, with which the runtime and profilers stop threads to look at them.
 * Async-signal-safe: yes. Threads: any. */
uint64_t clinux_mask_of_own_threads(void);

/* Has a thread that is made with ATTRIBUTES begin with the mask of the watchdog's threads
 * (pthread_attr_setsigmask_np(3)), and without SIGPROF where the caller or the main thread blocks that: whoever makes
 * it need not have that mask meanwhile, and be seen with it. Async-signal-safe: no. Threads: any. */
void clinux_mask_prepare(pthread_attr_t *attributes);

/* write(2), which ends nobody: a pipe or socket that nobody reads fails with EPIPE and a file that has reached the
 * process's limit with EFBIG, without the signal that comes with it, and a terminal takes what a job in the background
 * writes.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS ssize_t clinux_write(int descriptor, const void *bytes, size_t count);

#endif
