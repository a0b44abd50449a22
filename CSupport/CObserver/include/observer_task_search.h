/* Determines the layout of tasks in the memory of Swift's runtime.
 *
 * The layout is not documented. Test tasks reveal it (struct observer_task_clues), and only clues on which two tasks
 * agree are used. */
#ifndef OBSERVER_TASK_SEARCH_H
#define OBSERVER_TASK_SEARCH_H

#include "observer_base.h"

/* Finds the runtime's thread-local storage with a thread's current task and current executor, in bytes relative to any
 * thread's thread pointer. Returns false if the process has no such runtime, or it stores them elsewhere.
 * Async-signal-safe: no (dl_iterate_phdr). Threads: any, after clinux_thread_pointer_start. */
bool observer_swift_task_storage(int64_t *begin, int64_t *end);

/* The clues from one task: sets of its first 64 words, a bit for each. */
struct observer_task_clues {
  uint64_t allocation; /* candidates for the newest allocation */
  uint64_t status;     /* candidates for the flags */
  uint64_t parent;     /* candidates for the parent task */
  uint64_t locals;     /* candidates for the task-local values */
  uint64_t kind;       /* first word of all tasks; not a set */
  uint64_t runner;     /* caller of the function in which the task resumed; not a set; 0: unknown */
};

/* Collects clues from TASK, which has PRIORITY and runs on the calling thread. The caller must be an async function
 * that has called itself LEVELS times, more than once. PARENT is the parent of TASK, or 0; LABEL_KEY is the key of
 * labels, and TASK must have a label. Async-signal-safe: no. Threads: any. */
void observer_swift_task_look(uint64_t task, uint8_t priority, uint32_t levels, uint64_t parent, uint64_t label_key,
                              struct observer_task_clues *clues);

#endif
