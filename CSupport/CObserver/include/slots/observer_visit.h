/* Temporary entries of threads that are captured once, registered or not. */
#ifndef OBSERVER_VISIT_H
#define OBSERVER_VISIT_H

#include "base/observer_base.h"
#include "slots/observer_thread.h"

#define OBSERVER_VISITS_MAX 96

/* Returns a temporary entry for thread TID until observer_visit_end, or NULL if all OBSERVER_VISITS_MAX are in use.
 * Async-signal-safe: yes. Threads: the watchdog's observing threads. */
CLINUX_NO_LOCKS struct observer_thread *observer_visit_begin(int32_t tid);

/* Ends a visit; no effect for other entries. Async-signal-safe: yes. Threads: the visiting one. */
CLINUX_NO_LOCKS void observer_visit_end(struct observer_thread *thread);

/* Return the number of visits, and remove all visits in a child of fork(2). Async-signal-safe: yes. Threads: any. */
uint32_t observer_visits_under_way(void);
void observer_visit_start_over(void);

#endif
