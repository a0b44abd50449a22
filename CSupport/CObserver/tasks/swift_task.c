#include "task_memory.h"
#include "tasks/observer_swift_task.h"

#include "base/observer_machine.h"
#include "clinux_clock.h"
#include "clinux_context.h"
#include "clinux_memory.h"
#include "clinux_thread_pointer.h"

#include <string.h>
CLINUX_RESIDENT_CODE

void observer_swift_task_note(struct stack_copy *copy) {
  copy->task = copy->task_allocation = 0;
  const struct observer_task_layout *layout = task_memory_layout();
  if (!layout)
    return;
  uint64_t place = observer_machine_thread_pointer() + (uint64_t)layout->task;
  copy->task = *(const volatile uint64_t *)(uintptr_t)place;
  if (copy->task == 0)
    return;
  /* Another thread might have resumed and freed a suspended task to which this thread still refers. */
  int context_before = clinux_context;
  clinux_context = CLINUX_HANDLERS_CONTEXT;
  if (!clinux_memory_read(copy->task + layout->allocation * sizeof copy->task_allocation, &copy->task_allocation,
                          sizeof copy->task_allocation))
    copy->task = 0;
  clinux_context = context_before;
}

static bool find_current(int32_t tid, uint64_t *task, uint64_t *allocation) {
  uint64_t pointer;
  const struct observer_task_layout *layout = task_memory_layout();
  return layout && clinux_thread_pointer_find(tid, &pointer) &&
         clinux_memory_read(pointer + (uint64_t)layout->task, task, sizeof *task) && *task != 0 &&
         clinux_memory_read(*task + layout->allocation * sizeof *allocation, allocation, sizeof *allocation);
}

uint64_t observer_swift_task_current(int32_t tid) {
  uint64_t task, allocation;
  return find_current(tid, &task, &allocation) ? task : 0;
}

/* Finds the callers of the function that TASK ran when ALLOCATION was the newest. */
static bool callers_of_running(const struct observer_task_layout *layout, const struct task *task, uint64_t allocation,
                               struct task_chain *chain) {
  if (!task_memory_has_allocation(task->words[layout->allocation], allocation))
    return false;
  if (task_memory_newest_chain(allocation, true, chain))
    return true;
  /* TASK is in its first function, whose context is not allocated and ends every chain. */
  if (!task_memory_chain(task->words[RESUME_CONTEXT], true, chain))
    return false;
  chain->functions[0] = chain->functions[chain->count - 1];
  chain->count = 1;
  return !chain->is_cut;
}

static bool callers_of_suspended(const struct task *task, struct task_chain *chain) {
  uint64_t resumes = task->words[RESUME_FUNCTION];
  if (!task_memory_is_code(resumes) || !task_memory_chain(task->words[RESUME_CONTEXT], true, chain))
    return false;
  /* The context of a function that waits for a continuation contains its own resume function. */
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

/* Makes room at NUMBER for up to COUNT frames. Returns their number. */
static uint32_t make_room(struct unwind_stack *stack, uint32_t number, uint32_t count) {
  uint32_t room = UNWIND_FRAMES_MAX - stack->count;
  count = count < room ? count : room;
  memmove(&stack->frames[number + count], &stack->frames[number], (stack->count - number) * sizeof stack->frames[0]);
  stack->count += count;
  if (stack->joined_from != 0 && stack->joined_from >= number)
    stack->joined_from += count;
  return count;
}

static void remove_frames(struct unwind_stack *stack, uint32_t number, uint32_t count) {
  memmove(&stack->frames[number], &stack->frames[number + count],
          (stack->count - number - count) * sizeof stack->frames[0]);
  stack->count -= count;
  if (stack->joined_from != 0 && stack->joined_from >= number + count)
    stack->joined_from -= count;
}

/* Whether PARENT waits for CHILD or for its group. */
static bool awaits(const struct observer_task_layout *layout, const struct task *parent, uint64_t parent_address,
                   const struct task *child, uint64_t address) {
  struct task_record record;
  uint64_t awaited = task_memory_dependency(layout, parent, parent_address, &record);
  return awaited != 0 && (awaited == address || awaited == child->words[layout->parent + GROUP]);
}

/* Inserts CHAIN before frame NUMBER. Returns the new number of that frame. */
static uint32_t insert(struct unwind_stack *stack, uint32_t number, const struct task_chain *chain) {
  uint32_t count = make_room(stack, number, chain->count);
  for (uint32_t index = 0; index < count; index++)
    stack->frames[number + index] = (struct unwind_frame){
        .address = chain->functions[index],
        .kind = index + 1 == chain->count && !chain->is_cut ? UNWIND_TASK_START : UNWIND_ASYNC_CALLER,
        .offset = 0};
  return number + count;
}

/* Inserts the callers of TASK's waiting ancestors. Returns the new number of frame NUMBER. */
static uint32_t insert_parents(const struct observer_task_layout *layout, struct unwind_stack *stack, uint32_t number,
                               struct task *task, uint64_t address, struct task_chain *chain) {
  for (int seen = 0; seen < GENERATIONS_MAX && task->words[FLAGS] & IS_CHILD; seen++) {
    struct task child = *task;
    uint64_t parent = child.words[layout->parent];
    /* A truncated chain lacks its outer callers. */
    if (stack->frames[number - 1].kind != UNWIND_TASK_START)
      return number;
    bool is_read = task_memory_read(layout, parent, task);
    /* A parent that no longer waits is not a caller. */
    if (is_read &&
        (task_memory_state(layout, task) == OBSERVER_TASK_RUNNING || !awaits(layout, task, parent, &child, address)))
      return number;
    stack->frames[number - 1].kind = UNWIND_CHILD_START;
    if (!is_read || !callers_of_suspended(task, chain))
      return number;
    number = insert(stack, number, chain);
    address = parent;
  }
  return number;
}

/* The execution point of a sampled task. */
struct whereabouts {
  uint64_t address;
  int32_t blocked_tid;
  uint64_t blocked_used_ns;
  uint64_t allocation;
};

static bool is_there(const struct observer_task_layout *layout, const struct task *task,
                     const struct whereabouts *then) {
  struct task now;
  if (then->blocked_tid != 0)
    return clinux_clock_thread_cpu_ns(then->blocked_tid) == then->blocked_used_ns;
  if (!task_memory_read(layout, then->address, &now) || task_memory_id(&now) != task_memory_id(task))
    return false;
  enum observer_task_state state = task_memory_state(layout, &now);
  if (then->allocation != 0)
    return state != OBSERVER_TASK_COMPLETE &&
           task_memory_has_allocation(now.words[layout->allocation], then->allocation);
  return state != OBSERVER_TASK_COMPLETE && state != OBSERVER_TASK_RUNNING &&
         now.words[RESUME_FUNCTION] == task->words[RESUME_FUNCTION] &&
         now.words[RESUME_CONTEXT] == task->words[RESUME_CONTEXT];
}

/* Inserts the callers of TASK and, if TASK is still at THEN, the callers of its ancestors. */
static void insert_all(const struct observer_task_layout *layout, struct unwind_stack *stack, uint32_t number,
                       const struct task *task, const struct whereabouts *then, struct task_chain *chain) {
  struct task each = *task;
  uint32_t own = insert(stack, number, chain);
  bool is_whole = stack->frames[own - 1].kind == UNWIND_TASK_START;
  uint32_t last = insert_parents(layout, stack, own, &each, then->address, chain);
  if (!(task->words[FLAGS] & IS_CHILD) || !is_whole || is_there(layout, task, then))
    return;
  remove_frames(stack, own, last - own);
  stack->frames[own - 1].kind = UNWIND_CHILD_START;
}

/* The innermost frame that calls tasks' resume functions; 0: none. */
static uint32_t find_runner(const struct observer_task_layout *layout, const struct unwind_stack *stack) {
  for (uint32_t number = 1; number < stack->count; number++)
    if (stack->frames[number].kind == UNWIND_RETURN_ADDRESS && stack->frames[number].offset != UNWIND_NO_OFFSET &&
        stack->frames[number].address - stack->frames[number].offset == layout->runner)
      return number;
  return 0;
}

uint64_t observer_swift_task_callers(const struct stack_copy *copy, struct unwind_stack *stack) {
  struct task task;
  struct task_chain chain;
  uint64_t address = copy->task, allocation = copy->task_allocation;
  const struct observer_task_layout *layout = task_memory_layout();
  uint32_t number = layout ? find_runner(layout, stack) : 0;
  /* A blocked thread's task is searched only now, because the search walks through all threads. */
  bool is_blocked = copy->blocked_tid != 0;
  if (number == 0 || (address == 0 && !is_blocked))
    return address;
  bool is_found = (!is_blocked || find_current(copy->blocked_tid, &address, &allocation)) &&
                  task_memory_read(layout, address, &task) && callers_of_running(layout, &task, allocation, &chain) &&
                  (!is_blocked || clinux_clock_thread_cpu_ns(copy->blocked_tid) == copy->blocked_used_ns);
  struct whereabouts then = {.address = address,
                             .blocked_tid = copy->blocked_tid,
                             .blocked_used_ns = copy->blocked_used_ns,
                             .allocation = allocation};
  if (is_found)
    insert_all(layout, stack, number, &task, &then, &chain);
  else if (make_room(stack, number, 1) == 1)
    stack->frames[number] =
        (struct unwind_frame){.address = address, .kind = UNWIND_TASK_LOST, .offset = UNWIND_NO_OFFSET};
  return address;
}

void observer_swift_task_label(const struct observer_task_layout *layout, uint64_t address,
                               struct observer_label *label) {
  struct task task;
  label->bytes = 0;
  if (layout->locals == 0 || !task_memory_read(layout, address, &task))
    return;
  uint64_t object = task_memory_local(task.words[layout->locals], layout->label_key);
  if (object == 0 || !clinux_memory_read(object + FIRST_PROPERTY, label, sizeof *label) ||
      label->bytes > sizeof label->text ||
      /* Checks that the label was valid during the read. */
      !task_memory_read(layout, address, &task) ||
      task_memory_local(task.words[layout->locals], layout->label_key) != object)
    label->bytes = 0;
}

bool observer_swift_task_is(uint64_t address, uint32_t id) {
  struct task task;
  const struct observer_task_layout *layout = task_memory_layout();
  return layout && task_memory_read(layout, address, &task) && task_memory_id(&task) == id;
}

void observer_swift_task_known_label(uint64_t address, uint32_t id, struct observer_label *label) {
  label->bytes = 0;
  const struct observer_task_layout *layout = task_memory_layout();
  if (address == 0 || !layout)
    return;
  observer_swift_task_label(layout, address, label);
  /* Another task might be at this address. */
  if (id != 0 && !observer_swift_task_is(address, id))
    label->bytes = 0;
}

void observer_swift_task_stack(uint64_t address, struct unwind_stack *stack) {
  struct task task;
  struct task_chain chain;
  stack->count = stack->left_out = stack->joined_from = 0;
  stack->end = UNWIND_END_NOT_CAPTURED;
  const struct observer_task_layout *layout = task_memory_layout();
  if (!layout || !task_memory_read(layout, address, &task) || !callers_of_suspended(&task, &chain))
    return;
  struct whereabouts then = {.address = address};
  insert_all(layout, stack, 0, &task, &then, &chain);
  stack->end = UNWIND_END_OUTERMOST;
}

void observer_swift_task_waiters(const struct observer_task_waiters *waiters, struct unwind_stack *stack) {
  struct task task;
  struct task_chain chain;
  const struct observer_task_layout *layout = task_memory_layout();
  for (uint32_t left = layout ? waiters->count : 0; left > 0; left--) {
    uint32_t last = stack->count;
    while (last > 0 && stack->frames[last - 1].kind != UNWIND_TASK_START)
      last--;
    /* If a chain is truncated, the next task is not the caller of the chain's last function. */
    if (last == 0)
      return;
    stack->frames[last - 1].kind = UNWIND_CHILD_START;
    struct whereabouts then = {.address = waiters->tasks[left - 1]};
    if (!task_memory_read(layout, then.address, &task) || task_memory_state(layout, &task) == OBSERVER_TASK_RUNNING ||
        !callers_of_suspended(&task, &chain))
      return;
    insert_all(layout, stack, last, &task, &then, &chain);
  }
}
