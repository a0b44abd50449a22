/* How the watchdog's own threads are scheduled.
 *
 * A thread inherits from the one that starts it: its processors, its policy and priority, its nice value, how late its
 * timers may be. Who starts the watchdog may be a thread that was pinned or raised for work of its own, which is just
 * what the watchdog is to watch. So its threads have what the process had when it was started, and never a real-time
 * policy.
 */
#ifndef CLINUX_SCHEDULING_H
#define CLINUX_SCHEDULING_H

#include "clinux_base.h"

#include <pthread.h>

/* Sets in ATTRIBUTES, which are initialised, the policy and the processors of a thread that is about to be created, as
 * far as they are known. Where the kernel refuses these, creating the thread fails; it can be created without them
 * then.
 * Async-signal-safe: no. Threads: any. */
void clinux_scheduling_prepare(pthread_attr_t *attributes);

/* Gives the calling thread the rest, as far as it may have that: a nice value is only raised without privileges.
 * Async-signal-safe: yes. Threads: one of the watchdog's own, for itself. */
void clinux_scheduling_settle(void);

#endif
