/* The stacks of tasks of Swift's: where they resume, and who awaits that. */
#ifndef OBSERVER_SWIFT_TASK_H
#define OBSERVER_SWIFT_TASK_H

#include "observer_base.h"
#include "observer_slot.h"
#include "observer_task_work.h"

#include "CUnwind.h"

/* Fills STACK with where TASK, which no thread runs, resumes, and who awaits that, as observer_swift_task_callers does.
 * Async-signal-safe: yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_swift_task_stack(uint64_t task, struct unwind_stack *stack);

/* Reads the label that TASK has by its task-local values: of an object of Swift's whose first property is a struct
 * observer_label. None where TASK is not there any more. Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS void observer_swift_task_label(const struct observer_task_layout *layout, uint64_t task,
                                               struct observer_label *label);

/* The same, where things are known to be; none where TASK has not the number ID. Any has the number 0. */
CLINUX_NO_LOCKS void observer_swift_task_known_label(uint64_t task, uint32_t id, struct observer_label *label);

/* Whether the task with the number ID is at the address TASK: addresses are used again. Async-signal-safe: yes.
 * Threads: any that may read memory. */
CLINUX_NO_LOCKS bool observer_swift_task_is(uint64_t task, uint32_t id);

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
 * that waits for it; a child that has gone on meanwhile ends in UNWIND_CHILD_START. UNWIND_TASK_LOST says that the task
 * has gone on since, and its callers are not known any more. Returns the task; 0: none is known. Async-signal-safe:
 * yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS uint64_t observer_swift_task_callers(const struct stack_copy *copy, struct unwind_stack *stack);

#endif
