#ifndef OBSERVER_TASK_WORK_H
#define OBSERVER_TASK_WORK_H

#include "tasks/observer_task_memory.h"

enum { OBSERVER_TASK_WAITERS_MAX = 4 };
struct observer_task_waiters {
  uint32_t count;
  uint64_t tasks[OBSERVER_TASK_WAITERS_MAX]; /* outermost first */
};
struct observer_task_work {
  enum observer_task_state state;       /* of `task` */
  uint64_t task;                        /* the task, or the unfinished end of its chain of awaited tasks */
  uint32_t id;                          /* of `task` */
  int32_t tid;                          /* thread that runs or delays `task`; 0: none */
  bool is_on_actor;                     /* `tid` runs something on the task's actor */
  struct observer_task_waiters waiters; /* tasks that await `task` or an ancestor */
};

/* Returns the number of the section in slot INDEX with the owner GENERATION; never 0. Async-signal-safe: yes. Threads:
 * any. */
static inline CLINUX_NO_LOCKS uint64_t observer_section_number(uint32_t index, uint32_t generation) {
  return (uint64_t)index << 32 | generation;
}

/* Finds the thread that runs TASK with the number ID, or a task that TASK awaits. If there are several, TURN selects
 * one. OBSERVER_TASK_UNKNOWN: no such task, or no layout.
 *
 * A task suspended in a continuation does not name the task that will resume it. If MARK is not 0, a running task that
 * has inherited the section MARK (SectionMark.swift) counts as the suspended task's worker, unless it is a child of the
 * suspended task. Async-signal-safe: yes. Threads: any that can read memory, one at a time in each context
 * (clinux_context.h). */
CLINUX_NO_LOCKS void observer_swift_task_find(uint64_t task, uint32_t id, uint32_t turn, uint64_t mark,
                                              struct observer_task_work *work);

#endif
