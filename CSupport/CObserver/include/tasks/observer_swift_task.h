#ifndef OBSERVER_SWIFT_TASK_H
#define OBSERVER_SWIFT_TASK_H

#include "base/observer_base.h"
#include "slots/observer_slot.h"
#include "tasks/observer_task_work.h"

#include "CUnwind.h"

/* Sets STACK to the function in which the suspended TASK resumes, and that function's callers. Async-signal-safe: yes.
 * Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_swift_task_stack(uint64_t task, struct unwind_stack *stack);

/* Reads TASK's label from its task-local values. The value is an object whose first property is a struct
 * observer_label. Empty if TASK is 0. Async-signal-safe: yes. Threads: any that can read memory. */
CLINUX_NO_LOCKS void observer_swift_task_label(const struct observer_task_layout *layout, uint64_t task,
                                               struct observer_label *label);

/* Reads TASK's label with the set layout; empty if TASK's number is not ID (0: any). */
CLINUX_NO_LOCKS void observer_swift_task_known_label(uint64_t task, uint32_t id, struct observer_label *label);

/* Whether the task at address TASK has the number ID; addresses are reused. Async-signal-safe: yes. Threads: any that
 * can read memory. */
CLINUX_NO_LOCKS bool observer_swift_task_is(uint64_t task, uint32_t id);

/* Appends to STACK the functions in which WAITERS await the task. Async-signal-safe: yes. Threads: as
 * observer_unwind. */
CLINUX_NO_LOCKS void observer_swift_task_waiters(const struct observer_task_waiters *waiters,
                                                 struct unwind_stack *stack);

/* Returns the task that thread TID runs; 0: unknown. Async-signal-safe: yes. Threads: as observer_swift_task_find. */
CLINUX_NO_LOCKS uint64_t observer_swift_task_current(int32_t tid);

/* Records the calling thread's task in COPY. Async-signal-safe: yes. Threads: the copied one, in its handler. */
void observer_swift_task_note(struct stack_copy *copy);

/* Inserts the async callers into STACK, unwound from COPY, after the frame of the task's function: the functions in
 * which the callers resume (UNWIND_ASYNC_CALLER), the outermost return address (UNWIND_TASK_START, UNWIND_CHILD_START),
 * and a waiting parent's callers. UNWIND_TASK_LOST: the task has continued. Returns the task; 0: unknown.
 * Async-signal-safe: yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS uint64_t observer_swift_task_callers(const struct stack_copy *copy, struct unwind_stack *stack);

#endif
