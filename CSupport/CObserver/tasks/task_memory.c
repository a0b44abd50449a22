#include "task_memory.h"

#include "clinux_memory.h"
#include "clinux_module.h"

#include <stdatomic.h>
#include <string.h>
CLINUX_RESIDENT_CODE

static struct observer_task_layout known;
static atomic_bool is_known;

void observer_swift_task_know(const struct observer_task_layout *layout) {
  known = *layout;
  atomic_store_explicit(&is_known, true, memory_order_release);
}

bool observer_swift_task_is_known(void) { return task_memory_layout() != NULL; }

const struct observer_task_layout *task_memory_layout(void) {
  return atomic_load_explicit(&is_known, memory_order_acquire) ? &known : NULL;
}

struct context_head {
  uint64_t parent, resume;
};
struct allocation_head {
  uint64_t previous, slab;
  struct context_head content; /* possibly a context */
};

bool task_memory_is_code(uint64_t address) {
  struct clinux_module module;
  return address != 0 && clinux_module_find(address, &module);
}

bool task_memory_chain(uint64_t address, bool knows_modules, struct task_chain *chain) {
  chain->is_cut = false;
  for (chain->count = 0; chain->count < CONTEXTS_MAX;) {
    struct context_head head;
    if (address == 0 || address % 8 != 0 || !clinux_memory_read(address, &head, sizeof head) || head.resume == 0 ||
        (knows_modules && !task_memory_is_code(head.resume)))
      return false;
    chain->functions[chain->count++] = head.resume;
    if (head.parent == 0)
      return true;
    address = head.parent;
  }
  chain->is_cut = true;
  return true;
}

static bool previous_allocation(uint64_t *address, struct allocation_head *head) {
  if (*address == 0 || *address % 8 != 0 || !clinux_memory_read(*address, head, sizeof *head))
    return false;
  *address = head->previous & ~UINT64_C(7);
  return true;
}

bool task_memory_newest_chain(uint64_t address, bool knows_modules, struct task_chain *chain) {
  struct allocation_head head;
  for (int seen = 0; seen < ALLOCATIONS_MAX; seen++) {
    uint64_t content = address + offsetof(struct allocation_head, content);
    if (!previous_allocation(&address, &head))
      return false;
    if (head.content.parent != 0 && task_memory_chain(content, knows_modules, chain))
      return true;
  }
  return false;
}

bool task_memory_has_allocation(uint64_t address, uint64_t allocation) {
  struct allocation_head head;
  for (int seen = 0; seen < ALLOCATIONS_MAX && address != allocation; seen++)
    if (!previous_allocation(&address, &head))
      return false;
  return address == allocation;
}

/* A task-local value, in a list from the innermost binding outwards (TaskLocal::Item of include/swift/ABI/TaskLocal.h);
 * the link's low bits are the kind. */
struct local {
  uint64_t link, key, type, value;
};
enum { LOCALS_MAX = 64, LINK_BITS = 7 };

uint64_t task_memory_local(uint64_t link, uint64_t key) {
  struct local local;
  for (int seen = 0; seen < LOCALS_MAX && (link & ~(uint64_t)LINK_BITS) != 0; seen++, link = local.link) {
    if (!clinux_memory_read(link & ~(uint64_t)LINK_BITS, &local, sizeof local))
      return 0;
    /* Entries with kind bits have stale memory after their first word. */
    if ((local.link & LINK_BITS) == 0 && local.key == key)
      return local.value;
  }
  return 0;
}

enum { MARKS_MAX = 64 };

bool task_memory_has_mark(const struct observer_task_layout *layout, const struct task *task, uint64_t mark) {
  struct {
    uint64_t section, outer;
  } properties = {0};
  uint64_t object = layout->locals != 0 ? task_memory_local(task->words[layout->locals], layout->mark_key) : 0;
  for (int seen = 0; seen < MARKS_MAX && object != 0; seen++, object = properties.outer) {
    if (!clinux_memory_read(object + FIRST_PROPERTY, &properties, sizeof properties))
      return false;
    if (properties.section == mark)
      return true;
  }
  return false;
}

bool task_memory_read(const struct observer_task_layout *layout, uint64_t address, struct task *task) {
  uint32_t last = layout->allocation;
  last = layout->status > last ? layout->status : last;
  last = layout->parent + GROUP > last ? layout->parent + GROUP : last;
  last = layout->locals > last ? layout->locals : last;
  return address != 0 && clinux_memory_read(address, task->words, (last + 1) * sizeof task->words[0]) &&
         task->words[KIND] == layout->kind;
}

bool task_memory_has_yielded(const struct observer_task_layout *layout, const struct task *task) {
  return layout->yield != 0 && task->words[RESUME_FUNCTION] == layout->yield;
}

bool task_memory_is_asleep(const struct observer_task_layout *layout, const struct task *task) {
  uint64_t resumes = task->words[RESUME_FUNCTION];
  return resumes != 0 && (resumes == layout->sleeps[0] || resumes == layout->sleeps[1]);
}

enum observer_task_state task_memory_state(const struct observer_task_layout *layout, const struct task *task) {
  uint64_t status = task->words[layout->status];
  return status & IS_COMPLETE   ? OBSERVER_TASK_COMPLETE
         : status & IS_RUNNING  ? OBSERVER_TASK_RUNNING
         : status & IS_ENQUEUED ? OBSERVER_TASK_ENQUEUED
         /* A task that has yielded waits for its next turn. */
         : task_memory_has_yielded(layout, task) ? OBSERVER_TASK_ENQUEUED
                                                 : OBSERVER_TASK_SUSPENDED;
}

uint32_t observer_swift_task_id(uint64_t task) {
  return (uint32_t)(((const volatile uint64_t *)(uintptr_t)task)[FLAGS] >> 32);
}

uint8_t observer_swift_task_priority(uint64_t task) {
  uint64_t flags;
  return task != 0 && clinux_memory_read(task + FLAGS * sizeof flags, &flags, sizeof flags)
             ? (uint8_t)(flags >> FLAGS_PRIORITY_SHIFT)
             : 0;
}

uint64_t observer_swift_task_resumes(const struct observer_task_layout *layout, uint64_t address) {
  struct task task, again;
  bool is_suspended = task_memory_read(layout, address, &task) &&
                      task_memory_state(layout, &task) == OBSERVER_TASK_SUSPENDED &&
                      /* Checks that the task was suspended during the whole read. */
                      task_memory_read(layout, address, &again) &&
                      memcmp(task.words, again.words, (RESUME_CONTEXT + 1) * sizeof task.words[0]) == 0 &&
                      task.words[layout->status] == again.words[layout->status];
  return is_suspended ? task.words[RESUME_FUNCTION] : 0;
}

enum observer_task_state observer_swift_task_state(const struct observer_task_layout *layout, uint64_t address) {
  struct task task;
  return task_memory_read(layout, address, &task) ? task_memory_state(layout, &task) : OBSERVER_TASK_UNKNOWN;
}

uint64_t task_memory_records(const struct observer_task_layout *layout, const struct task *task) {
  return task->words[layout->status + 1];
}

bool task_memory_next_record(uint64_t *address, struct task_record *record) {
  if (*address == 0 || *address % 8 != 0 || !clinux_memory_read(*address, record, sizeof *record))
    return false;
  *address = record->previous;
  return true;
}

uint64_t task_memory_dependency(const struct observer_task_layout *layout, const struct task *task, uint64_t address,
                                struct task_record *record) {
  uint64_t next = task_memory_records(layout, task);
  for (int number = 0; number < RECORDS_MAX && task_memory_next_record(&next, record); number++)
    for (size_t word = 1; word < sizeof record->content / sizeof record->content[0]; word++)
      if (record->content[word] == address)
        return record->content[0];
  memset(record, 0, sizeof *record);
  return 0;
}
