/* Finding out where Swift's runtime keeps what it knows of tasks.
 *
 * That is nowhere promised. Tasks that are made for that purpose show it (struct observer_task_clues), and what two of
 * them do not agree on is not believed.
 */
#ifndef OBSERVER_TASK_SEARCH_H
#define OBSERVER_TASK_SEARCH_H

#include "observer_base.h"

/* Where the current task and the current executor of a thread are kept, by the runtime's thread-local storage: bytes
 * from any thread's thread pointer. Returns false where the process has no such runtime, or it keeps them elsewhere.
 * Async-signal-safe: no (dl_iterate_phdr). Threads: any that clinux_thread_pointer_start has been called for. */
bool observer_swift_task_storage(int64_t *begin, int64_t *end);

/* What one task has shown: sets of its first 64 words, a bit for each. */
struct observer_task_clues {
  uint64_t allocation; /* where it may have its newest allocation */
  uint64_t status;     /* where it may have its flags */
  uint64_t parent;     /* where it may have the task that it is a child of */
  uint64_t locals;     /* where it may have its task-local values */
  uint64_t kind;       /* what all tasks begin with; no set */
  uint64_t runner;     /* the function that called what the task resumed in; no set, and 0 where it is not known */
};

/* Looks at TASK, which has PRIORITY and runs on the calling thread: the caller is an async function that has called
 * itself LEVELS times, and more than once. PARENT is the task that TASK is a child of, or 0; LABEL_KEY is the key of
 * labels, of which TASK has one. Async-signal-safe: no. Threads: any. */
void observer_swift_task_look(uint64_t task, uint8_t priority, uint32_t levels, uint64_t parent, uint64_t label_key,
                              struct observer_task_clues *clues);

#endif
