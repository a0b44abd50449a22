/* CPU time of the watchdog's own threads, excluding threads that run application code. */
#ifndef OBSERVER_OWN_USE_H
#define OBSERVER_OWN_USE_H

#include "base/observer_base.h"

enum { OBSERVER_OWN_THREADS_MAX = 64 };

/* Counts the calling thread from now on. Returns the entry's index; -1: none is free. Async-signal-safe: yes. Threads:
 * any. */
int observer_own_use_enter(void);

/* Stops counting the calling thread, in entry PLACE; its CPU time stays in the sum. Async-signal-safe: yes. Threads:
 * the counted one. */
void observer_own_use_leave(int place);

/* Clears all entries in a child of fork(2). Async-signal-safe: yes. Threads: the child's only one. */
void observer_own_use_start_over(void);

/* Returns all counted threads' CPU time; an ending thread's time might be missing. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS uint64_t observer_own_use_ns(void);

#endif
