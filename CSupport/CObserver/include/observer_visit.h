/* Entries of threads that are captured once, registered or not. */
#ifndef OBSERVER_VISIT_H
#define OBSERVER_VISIT_H

#include "observer_base.h"
#include "observer_thread.h"

/* Threads that can be visited at the same time. */
#define OBSERVER_VISITS_MAX 96

/* An entry of thread TID, registered or not, that was made for the visit, or NULL when OBSERVER_VISITS_MAX visits are
 * under way. To be given to observer_visit_end. Async-signal-safe: yes. Threads: those of the watchdog that look at
 * threads. */
CLINUX_NO_LOCKS struct observer_thread *observer_visit_begin(int32_t tid);

/* Ends a visit; does nothing with an entry that is no visit's. Async-signal-safe: yes. Threads: who visited. */
CLINUX_NO_LOCKS void observer_visit_end(struct observer_thread *thread);

/* How many visits are under way. Async-signal-safe: yes. Threads: any. */
uint32_t observer_visits_under_way(void);

/* In a child of fork(2), before its first watchdog: none is under way. Async-signal-safe: yes. Threads: any. */
void observer_visit_start_over(void);

#endif
