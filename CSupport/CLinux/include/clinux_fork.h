/* Threads that stand aside while the process forks.
 *
 * A child of fork(2) has the locks of its parent's threads, and not the threads. Those of the Swift runtime, which it
 * takes where a type is used for the first time, nobody can free in the child: whoever needs the same one hangs. So a
 * thread of the watchdog's that uses the runtime takes part here, says when it rests, and works only while nobody
 * forks. Who forks waits until all of them rest: for CLINUX_FORK_PATIENCE_NS at most, and once only for the same piece
 * of work. Threads that keep time use no runtime and do not take part: they never wait for a fork.
 *
 * Children that are made without fork handlers (vfork(2), posix_spawn(3), _Fork(3), clone(2)) are made as ever.
 */
#ifndef CLINUX_FORK_H
#define CLINUX_FORK_H

#include "clinux_base.h"

/* How long who forks waits at most. */
#define CLINUX_FORK_PATIENCE_NS UINT64_C(100000000)

/* How long threads that take part wait at most for the same fork: copying a large process takes long. Who has waited as
 * long for forks that follow each other without a pause works for as long before it waits again. */
#define CLINUX_FORK_STAY_NS UINT64_C(500000000)

/* As many threads can take part. One that finds no place works as it would without this. */
#define CLINUX_FORK_PLACES_MAX 64

/* Has every fork of this process and of its children wait from now on. Async-signal-safe: no (allocates). Threads: any;
 * further calls do nothing. */
void clinux_fork_start(void);

/* The calling thread takes part, and works. Async-signal-safe: no (may wait for who forks). Threads: one that does not
 * take part. */
void clinux_fork_enter(void);

/* The calling thread takes no more part. Async-signal-safe: yes. Threads: any; nothing for one that takes no part. */
void clinux_fork_leave(void);

/* The calling thread holds nothing until it works again. Returns whether it takes part, and worked.
 * Async-signal-safe: yes. Threads: any. */
bool clinux_fork_rest(void);

/* The calling thread, which rested, works again, once nobody forks. Returns whether it takes part, and rested.
 * Async-signal-safe: no (may wait for who forks). Threads: any. */
bool clinux_fork_work(void);

/* Whether the calling thread takes part. */
extern _Thread_local bool clinux_fork_takes_part __attribute__((tls_model("initial-exec")));

/* Lets who waits to fork go ahead of the calling thread, which takes part. Async-signal-safe: no (may wait for who
 * forks). Threads: by clinux_fork_yield. */
void clinux_fork_let_ahead(void);

/* The calling thread holds nothing at this moment of its work: lets who waits to fork go ahead. Called in the midst of
 * what takes long. Async-signal-safe: no (as above). Threads: any; nothing for one that takes no part. */
static inline void clinux_fork_yield(void) {
  if (clinux_fork_takes_part)
    clinux_fork_let_ahead();
}

/* How often who forked has gone on although a thread worked. Async-signal-safe: yes.
 * Threads: any. */
uint32_t clinux_fork_impatient_count(void);

#endif
