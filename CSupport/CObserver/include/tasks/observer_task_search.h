/* Determines the undocumented layout of tasks from test tasks. Only clues on which two tasks agree are used. */
#ifndef OBSERVER_TASK_SEARCH_H
#define OBSERVER_TASK_SEARCH_H

#include "base/observer_base.h"

/* Finds the bounds of the runtime's thread-local storage, in bytes relative to the thread pointer. This storage
 * contains a thread's current task and executor. Returns false if there is none. Async-signal-safe: no
 * (dl_iterate_phdr). Threads: any, after clinux_thread_pointer_start. */
bool observer_swift_task_storage(int64_t *begin, int64_t *end);

/* Sets of words among a task's first 64, one bit for each word. */
struct observer_task_clues {
  uint64_t allocation; /* newest allocation */
  uint64_t status;     /* flags */
  uint64_t parent;
  uint64_t locals; /* task-local values */
  uint64_t kind;   /* first word of all tasks; not a set */
  uint64_t runner; /* caller of the function in which the task resumed; not a set; 0: unknown */
};

/* Collects clues from TASK, which has PRIORITY, a label with LABEL_KEY, and the parent PARENT or 0, and runs on the
 * calling thread. The caller must be an async function that has called itself LEVELS times, at least twice.
 * Async-signal-safe: no. Threads: any. */
void observer_swift_task_observe(uint64_t task, uint8_t priority, uint32_t levels, uint64_t parent, uint64_t label_key,
                                 struct observer_task_clues *clues);

#endif
