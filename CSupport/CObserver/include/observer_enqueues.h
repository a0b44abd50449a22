/* Counts how often each job has been enqueued on Swift's thread pool.
 *
 * A suspended task is enqueued before it runs again. If a thread runs the same task in two samples and the task was not
 * enqueued in between, it has run one job during that time. */
#ifndef OBSERVER_ENQUEUES_H
#define OBSERVER_ENQUEUES_H

#include "observer_base.h"

/* Starts counting for the rest of the process's life, in the runtime's hook (swift_task_enqueueGlobal_hook,
 * include/swift/Runtime/Concurrency.h). A hook that was set before is called as well. Returns false if the runtime has
 * no hook. Async-signal-safe: no. Threads: any. */
bool observer_enqueues_start(void);

/* Returns a number that changes whenever the task at address TASK is enqueued, and sometimes when another one is.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint32_t observer_enqueues_of(uint64_t task);

#endif
