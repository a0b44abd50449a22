/* Scheduling of the watchdog's own threads.
 *
 * A thread inherits from its creator: CPU affinity, policy and priority, nice value, and timer slack. The watchdog's
 * threads therefore use the settings that the process had at its start, and never a real-time policy. */
#ifndef CLINUX_SCHEDULING_H
#define CLINUX_SCHEDULING_H

#include "clinux_base.h"

#include <pthread.h>

/* Sets the policy and affinity of a thread to be created in the initialized ATTRIBUTES, as far as they are known. If
 * the kernel refuses them, creating the thread fails; it can then be created without them. Async-signal-safe: no.
 * Threads: any. */
void clinux_scheduling_prepare(pthread_attr_t *attributes);

/* Applies the remaining settings to the calling thread, as far as permitted: without privileges a nice value can only
 * be raised. Async-signal-safe: yes. Threads: one of the watchdog's own, for itself. */
void clinux_scheduling_settle(void);

#endif
