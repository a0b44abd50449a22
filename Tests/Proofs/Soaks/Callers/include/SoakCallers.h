/* Threads that block all the time, each in one system call that a signal may cut short, and that check every return.
 *
 * A call is found out in two ways: it returned with EINTR although nobody planned that, or it returned before the time
 * that it was asked to wait although nothing woke it. What wakes a thread on purpose never looks like either: reads,
 * accepts, locks and semaphores are given what they wait for; pause, which returns with EINTR by its nature, is sent a
 * signal of its own (SIGUSR1, never SIGPROF), only while the kernel shows the thread blocked in that very call, and the
 * handler counts it for the thread. A pause that returns without a count was interrupted by somebody else.
 */
#ifndef SOAK_CALLERS_H
#define SOAK_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

/* What came of the calls of one kind. */
struct soak_counts {
  uint64_t calls;         /* how many returned */
  uint64_t woken;         /* of these: because they got what they waited for, or the signal that was meant for them */
  uint64_t interrupted;   /* of these: with EINTR, and nobody had planned that */
  uint64_t early;         /* of these: before the time was up, and nothing had woken them */
  uint64_t most_early_ns; /* by how much the earliest of these was too early */
  uint64_t unexpected;    /* of these: in any other way that is neither time-out nor wake-up */
};

/* How many kinds of calls there are. Threads: any. */
int soak_kinds(void);

/* Whether the call of KIND, below soak_kinds(), is one that may return early for a sample (docs/internals/capture.md).
 * Threads: any. */
bool soak_may_return_early(int kind);

/* The name of the call of KIND, below soak_kinds(). Threads: any. */
const char *soak_kind_name(int kind);

/* Starts PER_KIND threads of each kind, and one that wakes those that wait without a limit. What they do at random
 * follows from SEED. Returns 0 or an errno value; nothing runs then. Threads: one, while nothing runs. */
int soak_start(int per_kind, uint64_t seed);

/* Ends every thread and frees what they had. The counts stay. Threads: the one that called soak_start. */
void soak_stop(void);

/* The kernel's ids of the calling threads, soak_kinds() times PER_KIND of them. Threads: any, while they run. */
int32_t soak_thread(int index);

/* What the threads of KIND have met so far. Threads: any. */
struct soak_counts soak_counts(int kind);

#endif
