/* The layout of Swift tasks in memory, and their state.
 *
 * Each call of an async function has a context. Its first word is the caller's context, its second the function in
 * which the caller resumes (AsyncContext of include/swift/ABI/Task.h). Contexts lie in the task's own stack allocator
 * (stdlib/public/runtime/StackAllocator.h), so the newest belongs to the running function. */
#ifndef OBSERVER_TASK_MEMORY_H
#define OBSERVER_TASK_MEMORY_H

#include "base/observer_base.h"

struct observer_task_layout {
  int64_t task, tracking;              /* thread-pointer offsets: current task, executor tracking */
  uint32_t allocation, status, parent; /* word indices, as in struct observer_task_clues */
  uint64_t kind, runner;               /* as in struct observer_task_clues */
  uint32_t locals;                     /* word index; 0: unknown */
  uint64_t label_key;                  /* task-local key of labels */
  uint64_t mark_key;                   /* key of section marks */
  uint64_t yield;                      /* resume function of yielded tasks; 0: unknown */
  uint64_t sleeps[2];                  /* resume functions of sleeping tasks; 0: unknown */
};

enum observer_task_state {
  OBSERVER_TASK_RUNNING = 0,
  OBSERVER_TASK_ENQUEUED = 1,  /* waits for its turn */
  OBSERVER_TASK_SUSPENDED = 2, /* waits, but not for its turn */
  OBSERVER_TASK_COMPLETE = 3,
  OBSERVER_TASK_UNKNOWN = 4,
};

/* Return the state of TASK, and its resume function (0: not suspended). Async-signal-safe: yes. Threads: any that can
 * read memory. */
CLINUX_NO_LOCKS enum observer_task_state observer_swift_task_state(const struct observer_task_layout *layout,
                                                                   uint64_t task);
uint64_t observer_swift_task_resumes(const struct observer_task_layout *layout, uint64_t task);

/* Sets the layout permanently. Async-signal-safe: yes. Threads: any, once. */
void observer_swift_task_know(const struct observer_task_layout *layout);

/* Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_swift_task_is_known(void);

/* Returns the runtime's number of TASK, which must exist. Async-signal-safe: yes. Threads: any. */
uint32_t observer_swift_task_id(uint64_t task);

/* Returns the last enqueued priority of TASK; 0 if it is unreadable. Async-signal-safe: yes. Threads: any that can read
 * memory. */
CLINUX_NO_LOCKS uint8_t observer_swift_task_priority(uint64_t task);

#endif
