/* Reads a Swift task and its data from memory that might change or be freed meanwhile.
 *
 * All functions are async-signal-safe. Threads: any that can read memory. */
#ifndef TASK_MEMORY_H
#define TASK_MEMORY_H

#include "tasks/observer_task_memory.h"

/* Word indices in a task: Job and AsyncTask of include/swift/ABI/Task.h, part of the compiler's ABI. */
enum { KIND = 0, FLAGS = 4, RESUME_FUNCTION = 7, RESUME_CONTEXT = 8, TASK_WORDS = 64 };

/* Word offsets from the word with a child's parent (ChildFragment and GroupChildFragment). */
enum { SIBLING = 1, GROUP = 2 };

/* Flags of a child task, and its priority when enqueued (JobFlags of include/swift/ABI/MetadataValues.h). */
#define IS_CHILD (UINT64_C(1) << 24)
enum { FLAGS_PRIORITY_SHIFT = 8 };

/* The status word (ActiveTaskStatus of stdlib/public/Concurrency/TaskPrivate.h). */
enum { PRIORITY_BITS = 0xff, IS_RUNNING = 0x800, IS_ENQUEUED = 0x1000, IS_COMPLETE = 0x2000 };

enum { CONTEXTS_MAX = 384, ALLOCATIONS_MAX = 64, GENERATIONS_MAX = 64 };

enum { RECORDS_MAX = 32, CHILDREN_MAX = 1024 };

/* The functions in which the callers resume, innermost first; last, the return address of the outermost caller. */
struct task_chain {
  uint32_t count;
  bool is_cut; /* the chain has more functions */
  uint64_t functions[CONTEXTS_MAX];
};

CLINUX_NO_LOCKS bool task_memory_is_code(uint64_t address);

/* Reads the chain of contexts from ADDRESS on. Returns false if a context is invalid. If KNOWS_MODULES is set, checks
 * that functions lie in modules. */
CLINUX_NO_LOCKS bool task_memory_chain(uint64_t address, bool knows_modules, struct task_chain *chain);

/* Reads the chain of the newest context among the allocations from ADDRESS on. */
CLINUX_NO_LOCKS bool task_memory_newest_chain(uint64_t address, bool knows_modules, struct task_chain *chain);

CLINUX_NO_LOCKS bool task_memory_has_allocation(uint64_t address, uint64_t allocation);

/* Returns the value for KEY in the task-local values from LINK on; 0: none. */
CLINUX_NO_LOCKS uint64_t task_memory_local(uint64_t link, uint64_t key);

struct task {
  uint64_t words[TASK_WORDS];
};

/* Offset of a final class's first property. */
enum { FIRST_PROPERTY = 16 };

/* Whether TASK has inherited the section MARK. */
CLINUX_NO_LOCKS bool task_memory_has_mark(const struct observer_task_layout *layout, const struct task *task,
                                          uint64_t mark);

CLINUX_NO_LOCKS bool task_memory_read(const struct observer_task_layout *layout, uint64_t address, struct task *task);

static inline uint32_t task_memory_id(const struct task *task) { return (uint32_t)(task->words[FLAGS] >> 32); }

CLINUX_NO_LOCKS bool task_memory_has_yielded(const struct observer_task_layout *layout, const struct task *task);

CLINUX_NO_LOCKS bool task_memory_is_asleep(const struct observer_task_layout *layout, const struct task *task);

CLINUX_NO_LOCKS enum observer_task_state task_memory_state(const struct observer_task_layout *layout,
                                                           const struct task *task);

/* A status record (TaskStatusRecord of include/swift/ABI/TaskStatus.h): CONTENT is the first child; or the dependency
 * and, in a later word, the task itself. */
struct task_record {
  uint64_t flags, previous, content[4];
};

CLINUX_NO_LOCKS uint64_t task_memory_records(const struct observer_task_layout *layout, const struct task *task);

/* Sets *ADDRESS to the previous record. Returns false if there is none. */
CLINUX_NO_LOCKS bool task_memory_next_record(uint64_t *address, struct task_record *record);

/* Returns the first word of TASK's dependency (a task, a group, a continuation, or an executor of two words); 0: none.
 * Sets RECORD to the whole record. */
CLINUX_NO_LOCKS uint64_t task_memory_dependency(const struct observer_task_layout *layout, const struct task *task,
                                                uint64_t address, struct task_record *record);

/* Returns the set layout, or NULL. */
CLINUX_NO_LOCKS const struct observer_task_layout *task_memory_layout(void);

#endif
