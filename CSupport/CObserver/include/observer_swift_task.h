/* Where the runtime of Swift's concurrency is. */
#ifndef OBSERVER_SWIFT_TASK_H
#define OBSERVER_SWIFT_TASK_H

#include "observer_base.h"

/* Where the current task and the current executor of a thread are kept, by the runtime's thread-local storage: bytes
 * from any thread's thread pointer. Returns false where the process has no such runtime, or it keeps them elsewhere.
 * Async-signal-safe: no (dl_iterate_phdr). Threads: any that clinux_thread_pointer_start has been called for. */
bool observer_swift_task_storage(int64_t *begin, int64_t *end);

#endif
