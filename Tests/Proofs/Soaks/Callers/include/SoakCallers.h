/* Threads that constantly block, each in one kind of system call that a signal can cut short, and check every return.
 *
 * A disturbed call is detected in two ways: an unplanned EINTR, or a return before its timeout without a wakeup.
 * Planned wakeups resemble neither: reads, accepts, locks and semaphores get the awaited event. pause always returns
 * with EINTR. It gets a separate signal (SIGUSR1, never SIGPROF), only while the kernel shows the thread blocked in
 * that call, and the handler counts the signal. A pause that returns without a counted signal was disturbed.
 */
#ifndef SOAK_CALLERS_H
#define SOAK_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

/* Results of the calls of one kind. */
struct soak_counts {
  uint64_t calls;         /* calls that returned */
  uint64_t woken;         /* calls that returned because of the awaited event or the planned signal */
  uint64_t interrupted;   /* calls that returned with an unplanned EINTR */
  uint64_t early;         /* calls that returned before the timeout, without a wakeup */
  uint64_t most_early_ns; /* the maximum time by which a call returned early */
  uint64_t unexpected;    /* calls that returned with any other result */
};

/* The number of kinds of calls. Threads: any. */
int soak_kinds(void);

/* Whether samples can make the call of KIND, below soak_kinds(), return early (docs/internals/capture.md). Threads:
 * any. */
bool soak_may_return_early(int kind);

/* The name of the call of KIND, below soak_kinds(). Threads: any. */
const char *soak_kind_name(int kind);

/* Starts PER_KIND threads of each kind, and one thread that ends the waits that have no timeout. SEED determines all
 * random choices. Returns 0, or an errno value after which no thread runs. Threads: one, while nothing runs. */
int soak_start(int per_kind, uint64_t seed);

/* Ends every thread and frees its resources. The counts stay. Threads: the one that called soak_start. */
void soak_stop(void);

/* The kernel's id of thread INDEX, below soak_kinds() times PER_KIND. Threads: any, while they run. */
int32_t soak_thread(int index);

/* Returns the results of the threads of KIND so far. Threads: any. */
struct soak_counts soak_counts(int kind);

#endif
