/* The processor time of the watchdog's own threads, as far as no code of the application runs in them. */
#ifndef OBSERVER_OWN_USE_H
#define OBSERVER_OWN_USE_H

#include "observer_base.h"

/* The most threads that are counted at a time. */
enum { OBSERVER_OWN_THREADS_MAX = 64 };

/* Counts the calling thread from now on. Returns its place, -1 when there is none.
 * Async-signal-safe: yes. Threads: any. */
int observer_own_use_enter(void);

/* Stops counting the calling thread, which has PLACE; its time so far stays in the sum. Async-signal-safe: yes.
 * Threads: that one. */
void observer_own_use_leave(int place);

/* In a child of fork(2): none is counted. Async-signal-safe: yes. Threads: the child's only one. */
void observer_own_use_start_over(void);

/* The processor time of all of them so far, in nanoseconds. While one ends it may be short of that one's.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t observer_own_use_ns(void);

#endif
