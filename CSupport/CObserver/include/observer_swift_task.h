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
#include "observer_slot.h"

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
  uint64_t locals;     /* where it may have its task-local values */
  uint64_t kind;       /* what all tasks begin with; no set */
  uint64_t runner;     /* the function that called what the task resumed in; no set, and 0 where it is not known */
};

/* Looks at TASK, which has PRIORITY and runs on the calling thread: the caller is an async function that has called
 * itself LEVELS times, and more than once. PARENT is the task that TASK is a child of, or 0; LABEL_KEY is the key of
 * labels, of which TASK has one. Async-signal-safe: no. Threads: any. */
void observer_swift_task_look(uint64_t task, uint8_t priority, uint32_t levels, uint64_t parent, uint64_t label_key,
                              struct observer_task_clues *clues);

/* Where things are. */
struct observer_task_layout {
  int64_t task, tracking; /* a thread's current task, and what is tracked about its executor: from its thread pointer */
  uint32_t allocation, status, parent; /* words of a task, as in struct observer_task_clues */
  uint64_t kind, runner;               /* as there */
  uint32_t locals;                     /* a word of tasks; 0: not known */
  uint64_t label_key;                  /* the key of labels among task-local values */
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

/* Whether that has been said. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_swift_task_is_known(void);

/* The number that the runtime has given TASK, which must be there: addresses are used again. Async-signal-safe: yes.
 * Threads: any. */
uint32_t observer_swift_task_id(uint64_t task);

/* Who works for a task: the task itself, or what it waits for, from task to task. */
enum { OBSERVER_TASK_WAITERS_MAX = 4 };
struct observer_task_waiters {
  uint32_t count;
  uint64_t tasks[OBSERVER_TASK_WAITERS_MAX]; /* those that await another one's value; the first is the outermost */
};
struct observer_task_work {
  enum observer_task_state state; /* of `task` */
  uint64_t task;                  /* the task itself, a child, or one whose value is awaited, and so on: not done */
  int32_t tid;                    /* the thread that runs it; where it is enqueued, one that is in its way; 0: none */
  struct observer_task_waiters waiters; /* who awaits the value of `task`, or of one that it is a child of */
};

/* Finds who works for TASK, which has the number ID, or what it waits for. Of several, each TURN finds another one.
 * `state` is OBSERVER_TASK_UNKNOWN when the task is not there any more, or it is not known where things are.
 * Async-signal-safe: yes. Threads: any that may read memory, one at a time in each context (clinux_context.h). */
CLINUX_NO_LOCKS void observer_swift_task_find(uint64_t task, uint32_t id, uint32_t turn,
                                              struct observer_task_work *work);

/* Fills STACK with where TASK, which no thread runs, resumes, and who awaits that, as observer_swift_task_callers does.
 * Async-signal-safe: yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_swift_task_stack(uint64_t task, struct unwind_stack *stack);

/* Reads the label that TASK has by its task-local values: of an object of Swift's whose first property is a struct
 * observer_label. None where TASK is not there any more. Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS void observer_swift_task_label(const struct observer_task_layout *layout, uint64_t task,
                                               struct observer_label *label);

/* The same, where things are known to be. */
CLINUX_NO_LOCKS void observer_swift_task_known_label(uint64_t task, struct observer_label *label);

/* Adds to STACK, which is of a task and has its callers, where those of WAITERS wait for its value, as
 * observer_swift_task_callers does. Async-signal-safe: yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_swift_task_waiters(const struct observer_task_waiters *waiters,
                                                 struct unwind_stack *stack);

/* The task that thread TID runs at this moment; 0: none that is known. Async-signal-safe: yes. Threads: as
 * observer_swift_task_find. */
CLINUX_NO_LOCKS uint64_t observer_swift_task_current(int32_t tid);

/* Notes in COPY, which is being made of the calling thread's stack, which task it runs. Async-signal-safe: yes.
 * Threads: the one whose stack it is, in its handler. */
void observer_swift_task_note(struct stack_copy *copy);

/* Adds to STACK, which was unwound from COPY, who awaits what the thread runs, where that is a task: behind the frame
 * of the function that the task runs, the functions that its callers resume in (UNWIND_ASYNC_CALLER), and where the
 * first of them returns to (UNWIND_TASK_START, UNWIND_CHILD_START); then the same of the task whose child it is, where
 * that waits for it. UNWIND_TASK_LOST says that the task has gone on since, and its callers are not known any more.
 * Returns the task; 0: none is known. Async-signal-safe: yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS uint64_t observer_swift_task_callers(const struct stack_copy *copy, struct unwind_stack *stack);

#endif
