/* How often each job has been enqueued on Swift's thread pool.
 *
 * A task that was suspended is enqueued before it runs again. A thread that runs a task at two looks has therefore run
 * one job in between if the task was not enqueued meanwhile. */
#ifndef OBSERVER_ENQUEUES_H
#define OBSERVER_ENQUEUES_H

#include "observer_base.h"

/* Begins to count, for the rest of the process's life, in the hook that the runtime has for this
 * (swift_task_enqueueGlobal_hook, include/swift/Runtime/Concurrency.h). A hook that was set before is called as well.
 * Returns false where the runtime has none. Async-signal-safe: no. Threads: any. */
bool observer_enqueues_start(void);

/* A number that changes whenever the task at address TASK is enqueued, and sometimes when another one is.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint32_t observer_enqueues_of(uint64_t task);

#endif
