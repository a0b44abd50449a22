/* Scheduling and stacks of the watchdog's own threads. They get the process's initial CPU affinity, policy, nice value
 * and timer slack, not those of the creating thread. Their policy is never a real-time policy. */
#ifndef CLINUX_SCHEDULING_H
#define CLINUX_SCHEDULING_H

#include "clinux_base.h"

#include <pthread.h>

/* Sets the policy and affinity in the initialized ATTRIBUTES. If the kernel refuses them, creating the thread fails
 * and must be repeated without them. Async-signal-safe: no. Threads: any. */
void clinux_scheduling_prepare(pthread_attr_t *attributes);

/* Sets a stack of BYTES, plus the process's thread-local storage, which the C library places on each stack, in the
 * initialized ATTRIBUTES. Has no effect if the size of that storage is unknown. Async-signal-safe: no. Threads: any. */
void clinux_scheduling_prepare_stack(pthread_attr_t *attributes, size_t bytes);

/* Applies the remaining settings to the calling thread, as far as permitted. Async-signal-safe: yes. Threads: one of
 * the watchdog's own, for itself. */
void clinux_scheduling_settle(void);

#endif
