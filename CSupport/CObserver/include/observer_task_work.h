/* Which thread works for a task of Swift's, or for what it waits for. */
#ifndef OBSERVER_TASK_WORK_H
#define OBSERVER_TASK_WORK_H

#include "observer_task_memory.h"

/* Who works for a task: the task itself, or what it waits for, from task to task. */
enum { OBSERVER_TASK_WAITERS_MAX = 4 };
struct observer_task_waiters {
  uint32_t count;
  uint64_t tasks[OBSERVER_TASK_WAITERS_MAX]; /* those that await another one; the first is the outermost */
};
struct observer_task_work {
  enum observer_task_state state; /* of `task` */
  uint64_t task;                  /* the task itself, a child, or one whose value is awaited, and so on: not done */
  uint32_t id;                    /* the number of `task` */
  int32_t tid;                    /* the thread that runs it; where it is enqueued, one that is in its way; 0: none */
  bool is_on_actor;               /* that one runs something on the actor that it is enqueued on */
  struct observer_task_waiters waiters; /* who awaits `task`, or one that it is a child of */
};

/* The number of the section that is watched in slot INDEX, whose owner is GENERATION. Not 0: generations begin with 1.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_section_number(uint32_t index, uint32_t generation) {
  return (uint64_t)index << 32 | generation;
}

/* Finds who works for TASK, which has the number ID, or what it waits for. Of several, each TURN finds another one.
 *
 * A task that is suspended in a continuation does not name the task that will resume it. If MARK is not 0, a running
 * task that has inherited the section with the number MARK (SectionMark.swift) counts as its worker, and the suspended
 * one is among `waiters`. Children of the suspended task do not count: it does not await them. A task that sleeps waits
 * for no other one.
 *
 * `state` is OBSERVER_TASK_UNKNOWN when the task is not there any more, or it is not known where things are.
 * Async-signal-safe: yes. Threads: any that may read memory, one at a time in each context (clinux_context.h). */
CLINUX_NO_LOCKS void observer_swift_task_find(uint64_t task, uint32_t id, uint32_t turn, uint64_t mark,
                                              struct observer_task_work *work);

#endif
