/* Where Swift's runtime keeps what it knows of tasks, and what a task says of itself.
 *
 * A task that is suspended has no stack, and one that runs has its callers elsewhere than on the thread's: each call of
 * an async function has a context, whose first word is the caller's context and whose second is the function that the
 * caller resumes in (AsyncContext of include/swift/ABI/Task.h). A context lies in memory that the task allocates and
 * frees like a stack (stdlib/public/runtime/StackAllocator.h): the newest that is there is that of the function that
 * runs.
 */
#ifndef OBSERVER_TASK_MEMORY_H
#define OBSERVER_TASK_MEMORY_H

#include "observer_base.h"

/* Where things are. */
struct observer_task_layout {
  int64_t task, tracking; /* a thread's current task, and what is tracked about its executor: from its thread pointer */
  uint32_t allocation, status, parent; /* words of a task, as in struct observer_task_clues */
  uint64_t kind, runner;               /* as there */
  uint32_t locals;                     /* a word of tasks; 0: not known */
  uint64_t label_key;                  /* the key of labels among task-local values */
  uint64_t mark_key;                   /* the key of the marks of sections */
  uint64_t yield;                      /* where tasks resume that have given up their turn; 0: not known */
  uint64_t sleeps[2];                  /* where tasks resume that sleep, by nanoseconds or by a clock; 0: not known */
};

/* What a task does. */
enum observer_task_state {
  OBSERVER_TASK_RUNNING = 0,
  OBSERVER_TASK_ENQUEUED = 1,  /* it waits for its turn */
  OBSERVER_TASK_SUSPENDED = 2, /* it waits for something else */
  OBSERVER_TASK_COMPLETE = 3,
  OBSERVER_TASK_UNKNOWN = 4,
};

/* What TASK does, by LAYOUT. Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS enum observer_task_state observer_swift_task_state(const struct observer_task_layout *layout,
                                                                   uint64_t task);

/* Where TASK resumes, which is suspended; 0 where it is not. Async-signal-safe: yes. Threads: any that may read memory.
 */
uint64_t observer_swift_task_resumes(const struct observer_task_layout *layout, uint64_t task);

/* Says where things are, for good. Async-signal-safe: yes. Threads: any, once. */
void observer_swift_task_know(const struct observer_task_layout *layout);

/* Whether that has been said. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_swift_task_is_known(void);

/* The number that the runtime has given TASK, which must be there: addresses are used again. Async-signal-safe: yes.
 * Threads: any. */
uint32_t observer_swift_task_id(uint64_t task);

/* The priority that TASK was enqueued with last; each priority has threads of its own. 0 where TASK cannot be read.
 * Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS uint8_t observer_swift_task_priority(uint64_t task);

#endif
