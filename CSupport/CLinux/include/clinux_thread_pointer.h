/* Thread pointers of the process's threads.
 *
 * They are found with get_robust_list(2) or in the C library's two thread lists, whose layout glibc describes for
 * debuggers (nptl_db: the symbols _thread_db_...). The lists can change during a walk, because their lock is not
 * taken. */
#ifndef CLINUX_THREAD_POINTER_H
#define CLINUX_THREAD_POINTER_H

#include "clinux_base.h"

struct clinux_thread_pointer {
  uint64_t pointer;
  int32_t tid;
};

/* Determines the layout of the C library's thread lists. Returns 0, or ENOTSUP if the layout is not described or does
 * not match the calling thread. Async-signal-safe: no (dlsym). Threads: any. */
int clinux_thread_pointer_start(void);

/* A walk, all zero initially. */
struct clinux_thread_walk {
  struct clinux_thread_pointer here; /* the current thread */
  uint64_t node;
  int list, seen;
};

/* Advances to the next thread. Returns false at the end, or if the layout is unknown. Async-signal-safe: yes.
 * Threads: any that can read memory (clinux_memory.h). */
CLINUX_NO_LOCKS bool clinux_thread_pointer_next(struct clinux_thread_walk *walk);

/* Writes up to MAX threads to FOUND. Returns their number. Async-signal-safe: yes. Threads: any that can read memory
 * (clinux_memory.h). */
CLINUX_NO_LOCKS size_t clinux_thread_pointer_list(struct clinux_thread_pointer *found, size_t max);

/* Finds the thread pointer of thread TID. Returns false if there is no such thread or the layout is unknown.
 * Async-signal-safe: yes. Threads: any that can read memory, one at a time in each context. */
CLINUX_NO_LOCKS bool clinux_thread_pointer_find(int32_t tid, uint64_t *pointer);

/* Whether thread TID still exists and has this thread POINTER. Async-signal-safe: yes. Threads: any that can read
 * memory. */
CLINUX_NO_LOCKS bool clinux_thread_pointer_is(uint64_t pointer, int32_t tid);

/* Determines where the C library stores the bounds of threads' stacks. Async-signal-safe: no (dlsym). Threads: one
 * whose stack pthread_create(3) has allocated. */
void clinux_thread_pointer_learn_stacks(void);

/* Whether clinux_thread_pointer_start has succeeded. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_thread_pointer_is_known(void);

/* Returns the size in bytes of the stack of the thread with this thread POINTER, guard pages included; 0 for the
 * main thread, or before clinux_thread_pointer_learn_stacks. Async-signal-safe: yes. Threads: any that can read
 * memory. */
CLINUX_NO_LOCKS uint64_t clinux_thread_pointer_stack_bytes(uint64_t pointer);

/* Sets *BEGIN and *END to the bounds of the thread-local storage of the module that contains CODE, in bytes relative to
 * the thread pointer. Returns 0, or ENOTSUP if the module has none. Async-signal-safe: no (dl_iterate_phdr). Threads:
 * any, after clinux_thread_pointer_start. */
int clinux_thread_pointer_storage(const void *code, int64_t *begin, int64_t *end);

/* Returns the calling thread's thread pointer. Requires clinux_thread_pointer_start. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS uint64_t clinux_thread_pointer_own(void);

#endif
