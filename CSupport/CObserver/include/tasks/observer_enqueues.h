/* Counts the enqueues of each job on Swift's thread pool. A task that runs in two samples without an enqueue in between
 * has run a single job. */
#ifndef OBSERVER_ENQUEUES_H
#define OBSERVER_ENQUEUES_H

#include "base/observer_base.h"

/* Starts counting permanently, in swift_task_enqueueGlobal_hook (include/swift/Runtime/Concurrency.h); an earlier hook
 * is still called. Returns false if the runtime has no hook. Async-signal-safe: no. Threads: any. */
bool observer_enqueues_start(void);

/* Returns a number that changes whenever TASK is enqueued, and sometimes when another task is. Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS uint32_t observer_enqueues_of(uint64_t task);

#endif
