/* A task of Swift's and what belongs to it, read from memory that may change meanwhile, or be gone.
 *
 * All of it is async-signal-safe, for any thread that may read memory.
 */
#ifndef TASK_MEMORY_H
#define TASK_MEMORY_H

#include "observer_task_memory.h"

/* What a task begins with: Job and AsyncTask of include/swift/ABI/Task.h, which the compiler relies on, too. */
enum { KIND = 0, FLAGS = 4, RESUME_FUNCTION = 7, RESUME_CONTEXT = 8, TASK_WORDS = 64 };

/* Behind the word with a child's parent: its next sibling, and the group that it is in (ChildFragment and
 * GroupChildFragment). */
enum { SIBLING = 1, GROUP = 2 };

/* In the word of flags: whether it is a child of another task, and what priority it was enqueued with (JobFlags of
 * include/swift/ABI/MetadataValues.h). */
#define IS_CHILD (UINT64_C(1) << 24)
enum { FLAGS_PRIORITY_SHIFT = 8 };

/* In the word that has the status (ActiveTaskStatus of stdlib/public/Concurrency/TaskPrivate.h). */
enum { PRIORITY_BITS = 0xff, IS_RUNNING = 0x800, IS_ENQUEUED = 0x1000, IS_COMPLETE = 0x2000 };

/* How far things are followed: from context to context, from allocation to allocation, from child to parent. */
enum { CONTEXTS_MAX = 384, ALLOCATIONS_MAX = 64, GENERATIONS_MAX = 64 };

/* How many records of a task, and children of one of them, are looked at. */
enum { RECORDS_MAX = 32, CHILDREN_MAX = 1024 };

/* A chain of contexts: the functions that its callers resume in, the innermost first; the last one is none, but where
 * the first of them returns to. */
struct task_chain {
  uint32_t count;
  bool is_cut; /* it is longer */
  uint64_t functions[CONTEXTS_MAX];
};

/* Whether ADDRESS is in a module's code. */
CLINUX_NO_LOCKS bool task_memory_is_code(uint64_t address);

/* Reads the chain from the context at ADDRESS on. Returns whether it could be followed to its end. What functions are
 * is looked up where KNOWS_MODULES. */
CLINUX_NO_LOCKS bool task_memory_chain(uint64_t address, bool knows_modules, struct task_chain *chain);

/* Reads the chain of the newest context among the allocations from the one at ADDRESS on. Returns false when there is
 * none. KNOWS_MODULES as above. */
CLINUX_NO_LOCKS bool task_memory_newest_chain(uint64_t address, bool knows_modules, struct task_chain *chain);

/* Whether ALLOCATION is among those from the one at ADDRESS on. */
CLINUX_NO_LOCKS bool task_memory_has_allocation(uint64_t address, uint64_t allocation);

/* The value for KEY in the list of task-local values from LINK on; 0 if there is none. */
CLINUX_NO_LOCKS uint64_t task_memory_local(uint64_t link, uint64_t key);

/* A task, as far as it is read. */
struct task {
  uint64_t words[TASK_WORDS];
};

/* Where a final class has its first property. */
enum { FIRST_PROPERTY = 16 };

/* Whether TASK has inherited the section with the number MARK: its task-local value is a list of objects, whose first
 * property is the number of a section and whose second is the object of the enclosing section. */
CLINUX_NO_LOCKS bool task_memory_has_mark(const struct observer_task_layout *layout, const struct task *task,
                                          uint64_t mark);

/* Reads the task at ADDRESS. Returns false when there is none. */
CLINUX_NO_LOCKS bool task_memory_read(const struct observer_task_layout *layout, uint64_t address, struct task *task);

/* The number of TASK. */
static inline uint32_t task_memory_id(const struct task *task) { return (uint32_t)(task->words[FLAGS] >> 32); }

/* Whether TASK, where it does not run, resumes where tasks do that have given up their turn. */
CLINUX_NO_LOCKS bool task_memory_has_yielded(const struct observer_task_layout *layout, const struct task *task);

/* Whether TASK, where it is suspended, sleeps. */
CLINUX_NO_LOCKS bool task_memory_is_asleep(const struct observer_task_layout *layout, const struct task *task);

CLINUX_NO_LOCKS enum observer_task_state task_memory_state(const struct observer_task_layout *layout,
                                                           const struct task *task);

/* A record of a task's: what it has begun, and what it waits for (TaskStatusRecord of include/swift/ABI/TaskStatus.h),
 * from the newest one to older ones. What follows depends on the kind: the first child; or what the task depends on,
 * and somewhere behind that the task itself. */
struct task_record {
  uint64_t flags, previous, content[4];
};

/* The first of TASK's records, for task_memory_next_record. */
CLINUX_NO_LOCKS uint64_t task_memory_records(const struct observer_task_layout *layout, const struct task *task);

/* Reads the record at ADDRESS, which then is that of the one before it. Returns false when there is none. */
CLINUX_NO_LOCKS bool task_memory_next_record(uint64_t *address, struct task_record *record);

/* Finds what TASK, which is at ADDRESS, waits for: a task, a group, a continuation, an executor in two words. Returns
 * the first word, or 0 when it does not say; RECORD has all of it. */
CLINUX_NO_LOCKS uint64_t task_memory_dependency(const struct observer_task_layout *layout, const struct task *task,
                                                uint64_t address, struct task_record *record);

/* Where things are; NULL before that has been said. */
CLINUX_NO_LOCKS const struct observer_task_layout *task_memory_layout(void);

#endif
