/* Which thread works for a task of Swift's, or for what it waits for. */
#ifndef OBSERVER_TASK_WORK_H
#define OBSERVER_TASK_WORK_H

#include "observer_task_memory.h"

/* Who works for a task: the task itself, or what it waits for, from task to task. */
enum { OBSERVER_TASK_WAITERS_MAX = 4 };
struct observer_task_waiters {
  uint32_t count;
  uint64_t tasks[OBSERVER_TASK_WAITERS_MAX]; /* those that await another one's value; the first is the outermost */
};
struct observer_task_work {
  enum observer_task_state state; /* of `task` */
  uint64_t task;                  /* the task itself, a child, or one whose value is awaited, and so on: not done */
  uint32_t id;                    /* the number of `task` */
  int32_t tid;                    /* the thread that runs it; where it is enqueued, one that is in its way; 0: none */
  bool is_on_actor;               /* that one runs something on the actor that it is enqueued on */
  struct observer_task_waiters waiters; /* who awaits the value of `task`, or of one that it is a child of */
};

/* Finds who works for TASK, which has the number ID, or what it waits for. Of several, each TURN finds another one.
 * `state` is OBSERVER_TASK_UNKNOWN when the task is not there any more, or it is not known where things are.
 * Async-signal-safe: yes. Threads: any that may read memory, one at a time in each context (clinux_context.h). */
CLINUX_NO_LOCKS void observer_swift_task_find(uint64_t task, uint32_t id, uint32_t turn,
                                              struct observer_task_work *work);

#endif
