#include "task_memory.h"
#include "tasks/observer_task_work.h"

#include "clinux_memory.h"
#include "clinux_thread_pointer.h"

static int urgency(enum observer_task_state state) {
  return state == OBSERVER_TASK_RUNNING     ? 3
         : state == OBSERVER_TASK_ENQUEUED  ? 2
         : state == OBSERVER_TASK_SUSPENDED ? 1
                                            : 0;
}

/* Finds the task that TASK awaits, or one of the most urgent members of the awaited group, selected by TURN. Returns 0
 * if there is none, or all have completed. */
static uint64_t find_awaited(const struct observer_task_layout *layout, const struct task *task, uint64_t address,
                             uint32_t turn) {
  struct task_record record;
  uint64_t awaited = task_memory_dependency(layout, task, address, &record);
  struct task other;
  if (awaited == 0)
    return 0;
  if (task_memory_read(layout, awaited, &other))
    return task_memory_state(layout, &other) == OBSERVER_TASK_COMPLETE ? 0 : awaited;
  uint32_t counts[4] = {0};
  for (int pass = 0; pass < 2; pass++) {
    int most = counts[3] ? 3 : counts[2] ? 2 : 1;
    uint32_t wanted = counts[most] ? turn % counts[most] : 0, seen = 0;
    uint64_t next = task_memory_records(layout, task);
    for (int number = 0; number < RECORDS_MAX && task_memory_next_record(&next, &record); number++) {
      uint64_t at = record.content[0];
      for (int count = 0;
           count < CHILDREN_MAX && task_memory_read(layout, at, &other) && other.words[FLAGS] & IS_CHILD &&
           other.words[layout->parent] == address && other.words[layout->parent + GROUP] == awaited;
           count++) {
        int level = urgency(task_memory_state(layout, &other));
        if (pass == 0)
          counts[level]++;
        else if (level == most && seen++ == wanted)
          return at;
        at = other.words[layout->parent + SIBLING];
      }
    }
    if (pass == 0 && counts[1] + counts[2] + counts[3] == 0)
      return 0;
  }
  return 0;
}

struct runs {
  uint64_t task, identity, preference; /* the task, the thread's executor, and the task's preferred executor */
  bool is_pool;
};

static bool read_runs(const struct observer_task_layout *layout, const struct clinux_thread_pointer *thread,
                      struct runs *runs) {
  uint64_t tracking, words[3];
  if (!clinux_memory_read(thread->pointer + (uint64_t)layout->task, &runs->task, sizeof runs->task) || runs->task == 0)
    return false;
  if (!clinux_memory_read(thread->pointer + (uint64_t)layout->tracking, &tracking, sizeof tracking) || tracking == 0 ||
      !clinux_memory_read(tracking, words, sizeof words))
    return false;
  runs->identity = words[0];
  runs->preference = words[2];
  runs->is_pool = words[1] == 0 && words[2] == 0;
  return true;
}

static int32_t find_thread(const struct observer_task_layout *layout, uint64_t task) {
  struct clinux_thread_walk walk = {0};
  struct runs runs;
  while (clinux_thread_pointer_next(&walk))
    if (read_runs(layout, &walk.here, &runs) && runs.task == task)
      return walk.here.tid;
  return 0;
}

/* Work for an actor can have another priority than its thread. */
static bool is_candidate(const struct runs *runs, uint8_t priority) {
  return runs->is_pool && (runs->identity != 0 || observer_swift_task_priority(runs->task) == priority);
}

/* Finds a thread for which the enqueued TASK waits: a thread on TASK's executor, or else a pool thread with TASK's
 * priority, selected by TURN. */
static int32_t find_in_the_way(const struct observer_task_layout *layout, const struct task *task, uint64_t address,
                               uint32_t turn, bool *is_on_actor) {
  struct clinux_thread_walk walk = {0};
  struct runs runs;
  int32_t found = 0;
  uint32_t count = 0;
  uint8_t priority = (uint8_t)(task->words[FLAGS] >> FLAGS_PRIORITY_SHIFT);
  struct task_record record;
  uint64_t executor = task_memory_dependency(layout, task, address, &record);
  /* A task that has yielded waits for a pool thread. */
  if (!(task->words[layout->status] & IS_ENQUEUED) && task_memory_has_yielded(layout, task))
    executor = record.content[1] = 0;
  while (clinux_thread_pointer_next(&walk)) {
    if (!read_runs(layout, &walk.here, &runs))
      continue;
    if (executor != 0 && (executor == runs.identity || executor == runs.preference)) {
      *is_on_actor = executor == runs.identity;
      return walk.here.tid;
    }
    count += is_candidate(&runs, priority);
  }
  /* Actors without a custom executor run on pool threads; other executors' threads are unknown. */
  if (count == 0 || record.content[1] != 0)
    return 0;
  uint32_t wanted = turn % count;
  walk = (struct clinux_thread_walk){0};
  while (clinux_thread_pointer_next(&walk) && found == 0)
    if (read_runs(layout, &walk.here, &runs) && is_candidate(&runs, priority) && wanted-- == 0)
      found = walk.here.tid;
  return found;
}

static bool is_descendant(const struct observer_task_layout *layout, const struct task *task, uint64_t address) {
  struct task each = *task;
  for (int generation = 0; generation < GENERATIONS_MAX && each.words[FLAGS] & IS_CHILD; generation++) {
    uint64_t parent = each.words[layout->parent];
    if (parent == address)
      return true;
    if (!task_memory_read(layout, parent, &each))
      break;
  }
  return false;
}

enum { MARKED_MAX = 16 };

/* Finds a thread that runs a task with MARK, selected by TURN. Excludes descendants of the task at ADDRESS and of
 * WORK's task. */
static bool find_marked(const struct observer_task_layout *layout, uint64_t address, uint32_t turn, uint64_t mark,
                        struct observer_task_work *work) {
  struct clinux_thread_walk walk = {0};
  struct {
    uint64_t task;
    uint32_t id;
    int32_t tid;
  } found[MARKED_MAX];
  uint32_t count = 0;
  while (count < MARKED_MAX && clinux_thread_pointer_next(&walk)) {
    struct runs runs;
    struct task task;
    if (read_runs(layout, &walk.here, &runs) && task_memory_read(layout, runs.task, &task) &&
        task_memory_has_mark(layout, &task, mark) && !is_descendant(layout, &task, address) &&
        !is_descendant(layout, &task, work->task)) {
      found[count].task = runs.task;
      found[count].id = task_memory_id(&task);
      found[count++].tid = walk.here.tid;
    }
  }
  if (count == 0)
    return false;
  uint32_t wanted = turn % count;
  work->task = found[wanted].task;
  work->id = found[wanted].id;
  work->tid = found[wanted].tid;
  work->state = OBSERVER_TASK_RUNNING;
  return true;
}

void observer_swift_task_find(uint64_t address, uint32_t id, uint32_t turn, uint64_t mark,
                              struct observer_task_work *work) {
  struct task task;
  *work = (struct observer_task_work){.state = OBSERVER_TASK_UNKNOWN, .task = address, .id = id};
  const struct observer_task_layout *layout = task_memory_layout();
  if (!layout || !task_memory_read(layout, address, &task) || task_memory_id(&task) != id)
    return;
  for (int generation = 0; generation < GENERATIONS_MAX; generation++) {
    work->state = task_memory_state(layout, &task);
    if (work->state != OBSERVER_TASK_SUSPENDED)
      break;
    uint64_t next = find_awaited(layout, &task, work->task, turn), before = work->task;
    if (next == before || work->waiters.count == OBSERVER_TASK_WAITERS_MAX)
      break;
    if (next == 0 && mark != 0 && !task_memory_is_asleep(layout, &task) &&
        find_marked(layout, address, turn, mark, work)) {
      work->waiters.tasks[work->waiters.count++] = before;
      return;
    }
    if (next == 0 || !task_memory_read(layout, next, &task))
      break;
    /* `next` is not a child of the waiting task. */
    if (!(task.words[FLAGS] & IS_CHILD) || task.words[layout->parent] != before)
      work->waiters.tasks[work->waiters.count++] = before;
    work->task = next;
    work->id = task_memory_id(&task);
  }
  if (work->state == OBSERVER_TASK_RUNNING)
    work->tid = find_thread(layout, work->task);
  else if (work->state == OBSERVER_TASK_ENQUEUED)
    work->tid = find_in_the_way(layout, &task, work->task, turn, &work->is_on_actor);
}
