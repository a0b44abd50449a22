/* What Swift's runtime keeps of tasks.
 *
 * A task that is suspended has no stack, and one that runs has its callers elsewhere than on the thread's: each call of
 * an async function has a context, whose first word is the caller's context and whose second is the function that the
 * caller resumes in (AsyncContext of include/swift/ABI/Task.h). A context lies in memory that the task allocates and
 * frees like a stack (stdlib/public/runtime/StackAllocator.h): the newest that is there is that of the function that
 * runs.
 *
 * Where the runtime keeps things is nowhere promised. Tasks that are made for that purpose show it (struct
 * observer_task_clues), and what two of them do not agree on is not believed.
 */
#ifndef OBSERVER_SWIFT_TASK_H
#define OBSERVER_SWIFT_TASK_H

#include "observer_base.h"

#include "CUnwind.h"

/* Where the current task and the current executor of a thread are kept, by the runtime's thread-local storage: bytes
 * from any thread's thread pointer. Returns false where the process has no such runtime, or it keeps them elsewhere.
 * Async-signal-safe: no (dl_iterate_phdr). Threads: any that clinux_thread_pointer_start has been called for. */
bool observer_swift_task_storage(int64_t *begin, int64_t *end);

/* What one task has shown: sets of its first 64 words, a bit for each. */
struct observer_task_clues {
  uint64_t allocation; /* where it may have its newest allocation */
  uint64_t status;     /* where it may have its flags */
  uint64_t parent;     /* where it may have the task that it is a child of */
  uint64_t kind;       /* what all tasks begin with; no set */
  uint64_t runner;     /* the function that called what the task resumed in; no set, and 0 where it is not known */
};

/* Looks at TASK, which has PRIORITY and runs on the calling thread: the caller is an async function that has called
 * itself LEVELS times, and more than once. PARENT is the task that TASK is a child of, or 0. Async-signal-safe: no.
 * Threads: any. */
void observer_swift_task_look(uint64_t task, uint8_t priority, uint32_t levels, uint64_t parent,
                              struct observer_task_clues *clues);

/* Where things are. */
struct observer_task_layout {
  int64_t task;                        /* a thread's current task: bytes from its thread pointer */
  uint32_t allocation, status, parent; /* words of a task, as in struct observer_task_clues */
  uint64_t kind, runner;               /* as there */
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

/* Says where things are, for good. Async-signal-safe: yes. Threads: any, once. */
void observer_swift_task_know(const struct observer_task_layout *layout);

/* Notes in COPY, which is being made of the calling thread's stack, or of that of thread TID, which task it runs.
 * Async-signal-safe: yes. Threads: the one whose stack it is, in its handler; any that may read memory. */
void observer_swift_task_note(struct stack_copy *copy);
void observer_swift_task_note_of(int32_t tid, struct stack_copy *copy);

/* Adds to STACK, which was unwound from COPY, who awaits what the thread runs, where that is a task: behind the frame of
 * the function that the task runs, the functions that its callers resume in (UNWIND_ASYNC_CALLER), and where the first of
 * them returns to (UNWIND_TASK_START, UNWIND_CHILD_START); then the same of the task whose child it is, where that does
 * not run. UNWIND_TASK_LOST says that the task has gone on since, and its callers are not known any more.
 * Async-signal-safe: yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_swift_task_callers(const struct stack_copy *copy, struct unwind_stack *stack);

#endif
