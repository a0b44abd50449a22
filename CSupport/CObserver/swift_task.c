#include "observer_swift_task.h"

#include "clinux_clock.h"
#include "clinux_context.h"
#include "clinux_memory.h"
#include "clinux_module.h"
#include "clinux_thread_pointer.h"
#include "observer_machine.h"

#include <stdatomic.h>
#include <string.h>
#include <unwind.h>

/* Of libswift_Concurrency, wherever that is linked. */
extern const char swift_task_getCurrent[] __attribute__((weak));

bool observer_swift_task_storage(int64_t *begin, int64_t *end) {
  return swift_task_getCurrent && clinux_thread_pointer_storage(swift_task_getCurrent, begin, end) == 0;
}

/* What a task begins with: Job and AsyncTask of include/swift/ABI/Task.h, which the compiler relies on, too. */
enum { KIND = 0, FLAGS = 4, RESUME_FUNCTION = 7, RESUME_CONTEXT = 8, TASK_WORDS = 64 };

/* Behind the word with a child's parent: its next sibling, and the group that it is in (ChildFragment and
 * GroupChildFragment). */
enum { SIBLING = 1, GROUP = 2 };

/* In the word of flags: whether it is a child of another task (JobFlags of include/swift/ABI/MetadataValues.h). */
#define IS_CHILD (UINT64_C(1) << 24)

/* In the word that has the status (ActiveTaskStatus of stdlib/public/Concurrency/TaskPrivate.h). */
enum { PRIORITY_BITS = 0xff, IS_RUNNING = 0x800, IS_ENQUEUED = 0x1000, IS_COMPLETE = 0x2000 };

/* How far things are followed: from context to context, from allocation to allocation, from child to parent. */
enum { CONTEXTS_MAX = 384, ALLOCATIONS_MAX = 64, GENERATIONS_MAX = 64 };

/* How many records of a task, and children of one of them, are looked at. */
enum { RECORDS_MAX = 32, CHILDREN_MAX = 1024 };

/* What contexts and allocations begin with. */
struct context_head {
  uint64_t parent, resume;
};
struct allocation_head {
  uint64_t previous, slab;
  struct context_head content; /* which may be a context */
};

/* A chain of contexts: the functions that its callers resume in, the innermost first; the last one is none, but where
 * the first of them returns to. */
struct chain {
  uint32_t count;
  bool is_cut; /* it is longer */
  uint64_t functions[CONTEXTS_MAX];
};

static bool is_code(uint64_t address) {
  struct clinux_module module;
  return address != 0 && clinux_module_find(address, &module);
}

/* Reads the chain from the context at ADDRESS on. Returns whether it could be followed to its end. What functions are
 * is looked up where KNOWS_MODULES. */
static bool read_chain(uint64_t address, bool knows_modules, struct chain *chain) {
  chain->is_cut = false;
  for (chain->count = 0; chain->count < CONTEXTS_MAX;) {
    struct context_head head;
    if (address == 0 || address % 8 != 0 || !clinux_memory_read(address, &head, sizeof head) || head.resume == 0 ||
        (knows_modules && !is_code(head.resume)))
      return false;
    chain->functions[chain->count++] = head.resume;
    if (head.parent == 0)
      return true;
    address = head.parent;
  }
  chain->is_cut = true;
  return true;
}

/* Goes from one allocation to the one before it. Returns false when there is none. */
static bool previous_allocation(uint64_t *address, struct allocation_head *head) {
  if (*address == 0 || *address % 8 != 0 || !clinux_memory_read(*address, head, sizeof *head))
    return false;
  *address = head->previous & ~UINT64_C(7);
  return true;
}

/* Reads the chain of the newest context among the allocations from the one at ADDRESS on. Returns false when there is
 * none. KNOWS_MODULES as above. */
static bool newest_chain(uint64_t address, bool knows_modules, struct chain *chain) {
  struct allocation_head head;
  for (int seen = 0; seen < ALLOCATIONS_MAX; seen++) {
    uint64_t content = address + offsetof(struct allocation_head, content);
    if (!previous_allocation(&address, &head))
      return false;
    if (head.content.parent != 0 && read_chain(content, knows_modules, chain))
      return true;
  }
  return false;
}

/* A task-local value, in a list from the innermost binding outwards (TaskLocal::Item of include/swift/ABI/TaskLocal.h).
 * The lower bits of a link say what it is a part of. */
struct local {
  uint64_t link, key, type, value;
};
enum { LOCALS_MAX = 64, LINK_BITS = 7 };

/* Where a final class has its first property. */
enum { FIRST_PROPERTY = 16 };

/* The value for KEY in the list from LINK on; 0 if there is none. */
static uint64_t find_local(uint64_t link, uint64_t key) {
  struct local local;
  for (int seen = 0; seen < LOCALS_MAX && (link & ~(uint64_t)LINK_BITS) != 0; seen++, link = local.link) {
    if (!clinux_memory_read(link & ~(uint64_t)LINK_BITS, &local, sizeof local))
      return 0;
    /* What is no value has bits of its own, and nothing behind its first word but what was there before. */
    if ((local.link & LINK_BITS) == 0 && local.key == key)
      return local.value;
  }
  return 0;
}

uint32_t observer_swift_task_id(uint64_t task) {
  return (uint32_t)(((const volatile uint64_t *)(uintptr_t)task)[FLAGS] >> 32);
}

/* MARK: Finding out */

/* Whether CHAIN is that of a function that has called itself LEVELS times. */
static bool has_levels(const struct chain *chain, uint32_t levels) {
  if (chain->count <= levels)
    return false;
  for (uint32_t level = 1; level < levels; level++)
    if (chain->functions[level] != chain->functions[0])
      return false;
  return chain->functions[levels] != chain->functions[0];
}

/* The functions of the frames around this file's own, as they come. */
struct frames {
  uint64_t caller;   /* an address in the function that asks */
  bool has_caller;   /* its frame has been found */
  uint64_t function; /* of the frame behind that */
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *state) {
  struct frames *frames = state;
  uint64_t address = _Unwind_GetIP(context);
  if (frames->has_caller) {
    frames->function = _Unwind_GetRegionStart(context);
    return _URC_END_OF_STACK;
  }
  frames->has_caller = address == frames->caller;
  return _URC_NO_REASON;
}

__attribute__((noinline)) void observer_swift_task_look(uint64_t task, uint8_t priority, uint32_t levels,
                                                        uint64_t parent, uint64_t label_key,
                                                        struct observer_task_clues *clues) {
  uint64_t words[TASK_WORDS];
  struct chain chain;
  struct frames frames = {.caller = (uint64_t)(uintptr_t)__builtin_return_address(0)};
  memset(clues, 0, sizeof *clues);
  size_t count = clinux_memory_read_some(task, words, sizeof words) / sizeof words[0];
  if (count <= RESUME_CONTEXT || !(words[FLAGS] & IS_CHILD) != !parent)
    return;
  for (size_t word = RESUME_CONTEXT + 1; word < count; word++) {
    uint64_t bit = UINT64_C(1) << word;
    if (newest_chain(words[word], false, &chain) && has_levels(&chain, levels))
      clues->allocation |= bit;
    if ((words[word] & ~(uint64_t)PRIORITY_BITS) == IS_RUNNING && (words[word] & PRIORITY_BITS) == priority)
      clues->status |= bit;
    if (parent != 0 && words[word] == parent)
      clues->parent |= bit;
    if (find_local(words[word], label_key) != 0)
      clues->locals |= bit;
  }
  clues->kind = words[KIND];
  _Unwind_Backtrace(add_frame, &frames);
  clues->runner = frames.function;
}

/* MARK: What is known */

static struct observer_task_layout known;
static atomic_bool is_known;

void observer_swift_task_know(const struct observer_task_layout *layout) {
  known = *layout;
  atomic_store_explicit(&is_known, true, memory_order_release);
}

bool observer_swift_task_is_known(void) { return atomic_load_explicit(&is_known, memory_order_acquire); }

void observer_swift_task_note(struct stack_copy *copy) {
  copy->task = copy->task_allocation = 0;
  if (!atomic_load_explicit(&is_known, memory_order_acquire))
    return;
  uint64_t place = observer_machine_thread_pointer() + (uint64_t)known.task;
  copy->task = *(const volatile uint64_t *)(uintptr_t)place;
  if (copy->task == 0)
    return;
  /* Just before it is forgotten here, a task that has been suspended may be resumed elsewhere, end, and be freed. */
  int context_before = clinux_context;
  clinux_context = CLINUX_HANDLERS_CONTEXT;
  if (!clinux_memory_read(copy->task + known.allocation * sizeof copy->task_allocation, &copy->task_allocation,
                          sizeof copy->task_allocation))
    copy->task = 0;
  clinux_context = context_before;
}

/* Finds the task that thread TID runs, and its newest allocation. Returns false when it runs none. */
static bool find_current(int32_t tid, uint64_t *task, uint64_t *allocation) {
  uint64_t pointer;
  return atomic_load_explicit(&is_known, memory_order_acquire) && clinux_thread_pointer_find(tid, &pointer) &&
         clinux_memory_read(pointer + (uint64_t)known.task, task, sizeof *task) && *task != 0 &&
         clinux_memory_read(*task + known.allocation * sizeof *allocation, allocation, sizeof *allocation);
}

uint64_t observer_swift_task_current(int32_t tid) {
  uint64_t task, allocation;
  return find_current(tid, &task, &allocation) ? task : 0;
}

/* A task, as far as it is read. */
struct task {
  uint64_t words[TASK_WORDS];
};

/* Reads the task at ADDRESS. Returns false when there is none. */
static bool read_task(const struct observer_task_layout *layout, uint64_t address, struct task *task) {
  uint32_t last = layout->allocation;
  last = layout->status > last ? layout->status : last;
  last = layout->parent + GROUP > last ? layout->parent + GROUP : last;
  last = layout->locals > last ? layout->locals : last;
  return address != 0 && clinux_memory_read(address, task->words, (last + 1) * sizeof task->words[0]) &&
         task->words[KIND] == layout->kind;
}

static enum observer_task_state state_of(const struct observer_task_layout *layout, const struct task *task) {
  uint64_t status = task->words[layout->status];
  return status & IS_COMPLETE   ? OBSERVER_TASK_COMPLETE
         : status & IS_RUNNING  ? OBSERVER_TASK_RUNNING
         : status & IS_ENQUEUED ? OBSERVER_TASK_ENQUEUED
                                : OBSERVER_TASK_SUSPENDED;
}

enum observer_task_state observer_swift_task_state(const struct observer_task_layout *layout, uint64_t address) {
  struct task task;
  return read_task(layout, address, &task) ? state_of(layout, &task) : OBSERVER_TASK_UNKNOWN;
}

/* Whether TASK still has ALLOCATION. */
static bool has_allocation(const struct task *task, uint64_t allocation) {
  uint64_t address = task->words[known.allocation];
  struct allocation_head head;
  for (int seen = 0; seen < ALLOCATIONS_MAX && address != allocation; seen++)
    if (!previous_allocation(&address, &head))
      return false;
  return address == allocation;
}

/* Finds who awaited the function that TASK ran when ALLOCATION was its newest. Returns false when that is not known any
 * more. */
static bool callers_of_running(const struct task *task, uint64_t allocation, struct chain *chain) {
  if (!has_allocation(task, allocation))
    return false;
  if (newest_chain(allocation, true, chain))
    return true;
  /* It is in its first function, whose context is not allocated. The last of any chain is that one's. */
  if (!read_chain(task->words[RESUME_CONTEXT], true, chain))
    return false;
  chain->functions[0] = chain->functions[chain->count - 1];
  chain->count = 1;
  return !chain->is_cut;
}

/* Finds where TASK, which does not run, resumes, and who awaits that. */
static bool callers_of_suspended(const struct task *task, struct chain *chain) {
  uint64_t resumes = task->words[RESUME_FUNCTION];
  if (!is_code(resumes) || !read_chain(task->words[RESUME_CONTEXT], true, chain))
    return false;
  /* What waits for a continuation has a context of its own, and resumes where that does. */
  if (chain->functions[0] == resumes)
    return true;
  if (chain->count == CONTEXTS_MAX) {
    chain->is_cut = true;
    chain->count--;
  }
  memmove(&chain->functions[1], &chain->functions[0], chain->count++ * sizeof chain->functions[0]);
  chain->functions[0] = resumes;
  return true;
}

/* Makes room for COUNT frames in STACK, in front of the frame NUMBER. Returns for how many there is some. */
static uint32_t make_room(struct unwind_stack *stack, uint32_t number, uint32_t count) {
  uint32_t room = UNWIND_FRAMES_MAX - stack->count;
  count = count < room ? count : room;
  memmove(&stack->frames[number + count], &stack->frames[number], (stack->count - number) * sizeof stack->frames[0]);
  stack->count += count;
  if (stack->joined_from != 0 && stack->joined_from >= number)
    stack->joined_from += count;
  return count;
}

/* A record of a task's: what it has begun, and what it waits for (TaskStatusRecord of include/swift/ABI/TaskStatus.h),
 * from the newest one to older ones. What follows depends on the kind: the first child; or what the task depends on,
 * and somewhere behind that the task itself. */
struct record {
  uint64_t flags, previous, content[4];
};

/* Goes from one record to the one before it. Returns false when there is none. */
static bool next_record(uint64_t *address, struct record *record) {
  if (*address == 0 || *address % 8 != 0 || !clinux_memory_read(*address, record, sizeof *record))
    return false;
  *address = record->previous;
  return true;
}

/* Finds what TASK, which is at ADDRESS, waits for: a task, a group, a continuation, an executor in two words. Returns
 * the first word, or 0 when it does not say; RECORD has all of it. */
static uint64_t dependency(const struct task *task, uint64_t address, struct record *record) {
  uint64_t next = task->words[known.status + 1];
  for (int number = 0; number < RECORDS_MAX && next_record(&next, record); number++)
    for (size_t word = 1; word < sizeof record->content / sizeof record->content[0]; word++)
      if (record->content[word] == address)
        return record->content[0];
  memset(record, 0, sizeof *record);
  return 0;
}

/* Whether CHILD, which is at ADDRESS, is what PARENT waits for, or one of the group that it waits for. */
static bool awaits(const struct task *parent, uint64_t parent_address, const struct task *child, uint64_t address) {
  struct record record;
  uint64_t awaited = dependency(parent, parent_address, &record);
  return awaited != 0 && (awaited == address || awaited == child->words[known.parent + GROUP]);
}

/* Puts the functions of CHAIN into STACK, in front of the frame NUMBER. Returns the number of that frame then. */
static uint32_t insert(struct unwind_stack *stack, uint32_t number, const struct chain *chain) {
  uint32_t count = make_room(stack, number, chain->count);
  for (uint32_t index = 0; index < count; index++)
    stack->frames[number + index] = (struct unwind_frame){
        .address = chain->functions[index],
        .kind = index + 1 == chain->count && !chain->is_cut ? UNWIND_TASK_START : UNWIND_ASYNC_CALLER,
        .offset = 0};
  return number + count;
}

/* Adds the callers of the parents of TASK, which is at ADDRESS, to STACK, in front of the frame NUMBER, where its own
 * end: of those that wait for it. */
static void insert_parents(struct unwind_stack *stack, uint32_t number, struct task *task, uint64_t address,
                           struct chain *chain) {
  for (int seen = 0; seen < GENERATIONS_MAX && task->words[FLAGS] & IS_CHILD; seen++) {
    struct task child = *task;
    uint64_t parent = child.words[known.parent];
    /* Behind a chain that is cut callers are missing. */
    if (stack->frames[number - 1].kind != UNWIND_TASK_START)
      return;
    bool is_read = read_task(&known, parent, task);
    /* What does something else meanwhile is no caller. */
    if (is_read && (state_of(&known, task) == OBSERVER_TASK_RUNNING || !awaits(task, parent, &child, address)))
      return;
    stack->frames[number - 1].kind = UNWIND_CHILD_START;
    if (!is_read || !callers_of_suspended(task, chain))
      return;
    number = insert(stack, number, chain);
    address = parent;
  }
}

/* The number of the innermost frame of STACK that calls what tasks resume in; 0 if there is none. */
static uint32_t find_runner(const struct unwind_stack *stack) {
  for (uint32_t number = 1; number < stack->count; number++)
    if (stack->frames[number].kind == UNWIND_RETURN_ADDRESS && stack->frames[number].offset != UNWIND_NO_OFFSET &&
        stack->frames[number].address - stack->frames[number].offset == known.runner)
      return number;
  return 0;
}

uint64_t observer_swift_task_callers(const struct stack_copy *copy, struct unwind_stack *stack) {
  struct task task;
  struct chain chain;
  uint64_t address = copy->task, allocation = copy->task_allocation;
  bool is_known_now = atomic_load_explicit(&is_known, memory_order_acquire);
  uint32_t number = is_known_now ? find_runner(stack) : 0;
  /* Of a thread that was blocked it is looked up only here: finding one takes a walk through all of them. */
  bool is_blocked = copy->blocked_tid != 0;
  if (number == 0 || (address == 0 && !is_blocked))
    return address;
  bool is_found = (!is_blocked || find_current(copy->blocked_tid, &address, &allocation)) &&
                  read_task(&known, address, &task) && callers_of_running(&task, allocation, &chain) &&
                  (!is_blocked || clinux_clock_thread_cpu_ns(copy->blocked_tid) == copy->blocked_used_ns);
  if (is_found)
    insert_parents(stack, insert(stack, number, &chain), &task, address, &chain);
  else if (make_room(stack, number, 1) == 1)
    stack->frames[number] =
        (struct unwind_frame){.address = address, .kind = UNWIND_TASK_LOST, .offset = UNWIND_NO_OFFSET};
  return address;
}

void observer_swift_task_label(const struct observer_task_layout *layout, uint64_t address,
                               struct observer_label *label) {
  struct task task;
  label->bytes = 0;
  if (layout->locals == 0 || !read_task(layout, address, &task))
    return;
  uint64_t object = find_local(task.words[layout->locals], layout->label_key);
  if (object == 0 || !clinux_memory_read(object + FIRST_PROPERTY, label, sizeof *label) ||
      label->bytes > sizeof label->text ||
      /* It was there all the time. */
      !read_task(layout, address, &task) || find_local(task.words[layout->locals], layout->label_key) != object)
    label->bytes = 0;
}

void observer_swift_task_known_label(uint64_t task, struct observer_label *label) {
  label->bytes = 0;
  if (task != 0 && atomic_load_explicit(&is_known, memory_order_acquire))
    observer_swift_task_label(&known, task, label);
}

/* MARK: Who works */

/* How urgent it is to look at what is in a state. */
static int urgency(enum observer_task_state state) {
  return state == OBSERVER_TASK_RUNNING     ? 3
         : state == OBSERVER_TASK_ENQUEUED  ? 2
         : state == OBSERVER_TASK_SUSPENDED ? 1
                                            : 0;
}

/* Finds the task that TASK, which is at ADDRESS, waits for: one whose value it awaits, or one of the group that it
 * waits for, of which those that are most urgent come in turn. Returns 0 if there is none that is not done. */
static uint64_t find_awaited(const struct task *task, uint64_t address, uint32_t turn) {
  struct record record;
  uint64_t awaited = dependency(task, address, &record);
  struct task other;
  if (awaited == 0)
    return 0;
  if (read_task(&known, awaited, &other))
    return state_of(&known, &other) == OBSERVER_TASK_COMPLETE ? 0 : awaited;
  uint32_t counts[4] = {0};
  for (int pass = 0; pass < 2; pass++) {
    int most = counts[3] ? 3 : counts[2] ? 2 : 1;
    uint32_t wanted = counts[most] ? turn % counts[most] : 0, seen = 0;
    uint64_t next = task->words[known.status + 1];
    for (int number = 0; number < RECORDS_MAX && next_record(&next, &record); number++) {
      uint64_t at = record.content[0];
      for (int count = 0; count < CHILDREN_MAX && read_task(&known, at, &other) && other.words[FLAGS] & IS_CHILD &&
                          other.words[known.parent] == address && other.words[known.parent + GROUP] == awaited;
           count++) {
        int level = urgency(state_of(&known, &other));
        if (pass == 0)
          counts[level]++;
        else if (level == most && seen++ == wanted)
          return at;
        at = other.words[known.parent + SIBLING];
      }
    }
    if (pass == 0 && counts[1] + counts[2] + counts[3] == 0)
      return 0;
  }
  return 0;
}

/* A thread's task and executor. */
struct runs {
  uint64_t task, identity, preference; /* the executors': its own, and the one that the task prefers */
  bool is_pool;
};

static bool read_runs(const struct clinux_thread_pointer *thread, struct runs *runs) {
  uint64_t tracking, words[3];
  if (!clinux_memory_read(thread->pointer + (uint64_t)known.task, &runs->task, sizeof runs->task) || runs->task == 0)
    return false;
  if (!clinux_memory_read(thread->pointer + (uint64_t)known.tracking, &tracking, sizeof tracking) || tracking == 0 ||
      !clinux_memory_read(tracking, words, sizeof words))
    return false;
  runs->identity = words[0];
  runs->preference = words[2];
  runs->is_pool = words[1] == 0 && words[2] == 0;
  return true;
}

static int32_t find_thread(uint64_t task) {
  struct clinux_thread_walk walk = {0};
  struct runs runs;
  while (clinux_thread_pointer_next(&walk))
    if (read_runs(&walk.here, &runs) && runs.task == task)
      return walk.here.tid;
  return 0;
}

/* Finds a thread that is in the way of TASK, which is at ADDRESS and enqueued: what runs on the executor that it is
 * enqueued on, or, for none, one of the pool's; of several the one whose turn it is. */
static int32_t find_in_the_way(const struct task *task, uint64_t address, uint32_t turn) {
  struct clinux_thread_walk walk = {0};
  struct runs runs;
  int32_t found = 0;
  uint32_t count = 0;
  struct record record;
  uint64_t executor = dependency(task, address, &record);
  while (clinux_thread_pointer_next(&walk)) {
    if (!read_runs(&walk.here, &runs))
      continue;
    /* It is enqueued on one of them. */
    if (executor != 0 && (executor == runs.identity || executor == runs.preference))
      return walk.here.tid;
    count += runs.is_pool;
  }
  /* Actors without an executor of their own have the pool's threads; whose others have, is not known. */
  if (count == 0 || record.content[1] != 0)
    return 0;
  uint32_t wanted = turn % count;
  walk = (struct clinux_thread_walk){0};
  while (clinux_thread_pointer_next(&walk) && found == 0)
    if (read_runs(&walk.here, &runs) && runs.is_pool && wanted-- == 0)
      found = walk.here.tid;
  return found;
}

void observer_swift_task_find(uint64_t address, uint32_t id, uint32_t turn, struct observer_task_work *work) {
  struct task task;
  *work = (struct observer_task_work){.state = OBSERVER_TASK_UNKNOWN, .task = address};
  if (!atomic_load_explicit(&is_known, memory_order_acquire) || !read_task(&known, address, &task) ||
      task.words[FLAGS] >> 32 != id)
    return;
  for (int generation = 0; generation < GENERATIONS_MAX; generation++) {
    work->state = state_of(&known, &task);
    if (work->state != OBSERVER_TASK_SUSPENDED)
      break;
    uint64_t next = find_awaited(&task, work->task, turn), before = work->task;
    if (next == before || work->waiters.count == OBSERVER_TASK_WAITERS_MAX)
      break;
    if (next == 0 || !read_task(&known, next, &task))
      break;
    /* Somebody else's child is none of it. */
    if (!(task.words[FLAGS] & IS_CHILD) || task.words[known.parent] != before)
      work->waiters.tasks[work->waiters.count++] = before;
    work->task = next;
  }
  if (work->state == OBSERVER_TASK_RUNNING)
    work->tid = find_thread(work->task);
  else if (work->state == OBSERVER_TASK_ENQUEUED)
    work->tid = find_in_the_way(&task, work->task, turn);
}

void observer_swift_task_stack(uint64_t address, struct unwind_stack *stack) {
  struct task task;
  struct chain chain;
  stack->count = stack->left_out = stack->joined_from = 0;
  stack->end = UNWIND_END_NOT_CAPTURED;
  if (!atomic_load_explicit(&is_known, memory_order_acquire) || !read_task(&known, address, &task) ||
      !callers_of_suspended(&task, &chain))
    return;
  insert_parents(stack, insert(stack, 0, &chain), &task, address, &chain);
  stack->end = UNWIND_END_OUTERMOST;
}

void observer_swift_task_waiters(const struct observer_task_waiters *waiters, struct unwind_stack *stack) {
  struct task task;
  struct chain chain;
  for (uint32_t left = waiters->count; left > 0; left--) {
    uint32_t last = stack->count;
    while (last > 0 && stack->frames[last - 1].kind != UNWIND_TASK_START)
      last--;
    /* Where a chain ends early, what comes then is not its caller. */
    if (last == 0 || !read_task(&known, waiters->tasks[left - 1], &task) ||
        state_of(&known, &task) == OBSERVER_TASK_RUNNING || !callers_of_suspended(&task, &chain))
      return;
    stack->frames[last - 1].kind = UNWIND_CHILD_START;
    insert_parents(stack, insert(stack, last, &chain), &task, waiters->tasks[left - 1], &chain);
  }
}
