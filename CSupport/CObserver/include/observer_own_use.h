/* CPU time of the watchdog's own threads, excluding application code that runs in them. */
#ifndef OBSERVER_OWN_USE_H
#define OBSERVER_OWN_USE_H

#include "observer_base.h"

/* Maximum number of threads counted at a time. */
enum { OBSERVER_OWN_THREADS_MAX = 64 };

/* Counts the calling thread from now on. Returns its place, or -1 if there is none. Async-signal-safe: yes. Threads:
 * any. */
int observer_own_use_enter(void);

/* Stops counting the calling thread, which has PLACE; its time so far stays in the sum. Async-signal-safe: yes.
 * Threads: the counted one. */
void observer_own_use_leave(int place);

/* Resets all places in a child of fork(2). Async-signal-safe: yes. Threads: the child's only one. */
void observer_own_use_start_over(void);

/* Returns the total CPU time of all counted threads so far, in nanoseconds. While a thread ends, its time might be
 * missing. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t observer_own_use_ns(void);

#endif
