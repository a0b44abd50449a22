/* Where the threads of the process have their thread pointers, and with them their thread-local storage.
 *
 * The C library keeps every thread that pthread_create(3) has made, and the main thread, in two lists. How they are
 * laid out it tells debuggers (nptl_db of glibc: the symbols _thread_db_...), and nothing else is relied on. The lists
 * change while they are read, because nobody takes their lock: what is found is checked, and a walk that goes astray
 * ends.
 */
#ifndef CLINUX_THREAD_POINTER_H
#define CLINUX_THREAD_POINTER_H

#include "clinux_base.h"

/* A thread, and where its thread pointer points to. */
struct clinux_thread_pointer {
  uint64_t pointer;
  int32_t tid;
};

/* Finds out how the C library keeps its threads. Returns 0, or ENOTSUP when it does not tell, or tells what is not true
 * of the calling thread. Async-signal-safe: no (dlsym). Threads: any. */
int clinux_thread_pointer_start(void);

/* A walk through the threads of the process; all zero at its beginning. */
struct clinux_thread_walk {
  struct clinux_thread_pointer here; /* the thread that was found last */
  uint64_t node;                     /* for the walk itself */
  int list, seen;
};

/* Goes on to the next thread. One that begins or ends meanwhile may be missing. Returns false when there are no more,
 * or the C library does not tell. Async-signal-safe: yes. Threads: any that may read memory (clinux_memory.h). */
CLINUX_NO_LOCKS bool clinux_thread_pointer_next(struct clinux_thread_walk *walk);

/* Looks for the threads of the process, MAX at most, and writes them to FOUND. Returns how many were found; one that
 * begins or ends meanwhile may be missing. 0 when the C library does not tell.
 * Async-signal-safe: yes. Threads: any that may read memory (clinux_memory.h). */
CLINUX_NO_LOCKS size_t clinux_thread_pointer_list(struct clinux_thread_pointer *found, size_t max);

/* Finds where thread TID has its thread pointer. What was found before is looked at first, in each context
 * (clinux_context.h). Returns false when there is no such thread, or the C library does not tell. Async-signal-safe:
 * yes. Threads: any that may read memory, one at a time in each context. */
CLINUX_NO_LOCKS bool clinux_thread_pointer_find(int32_t tid, uint64_t *pointer);

/* Whether POINTER is where thread TID has its thread pointer: the thread has not ended since it was found.
 * Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS bool clinux_thread_pointer_is(uint64_t pointer, int32_t tid);

/* Finds where the C library keeps the bounds of threads' stacks: it reports those of the calling thread.
 * Async-signal-safe: no (pthread_getattr_np). Threads: one that pthread_create(3) has made. */
void clinux_thread_pointer_learn_stacks(void);

/* Whether threads of the C library can be distinguished from others: clinux_thread_pointer_start has succeeded.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_thread_pointer_is_known(void);

/* Returns the size of the stack of the thread with this thread POINTER, guard pages included; 0 for the main thread and
 * where clinux_thread_pointer_learn_stacks has learned nothing. Async-signal-safe: yes. Threads: any that may read
 * memory. */
CLINUX_NO_LOCKS uint64_t clinux_thread_pointer_stack_bytes(uint64_t pointer);

/* Where the module that CODE is part of has its thread-local storage: from BEGIN to END, in bytes from the calling
 * thread's thread pointer. It is the same for all threads where the storage is static (ELF Handling For Thread-Local
 * Storage, section 3); whether it is, is not known here. Returns 0, or ENOTSUP when there is none.
 * Async-signal-safe: no (dl_iterate_phdr). Threads: any, once clinux_thread_pointer_start has been called. */
int clinux_thread_pointer_storage(const void *code, int64_t *begin, int64_t *end);

/* The calling thread's, once clinux_thread_pointer_start has been called. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t clinux_thread_pointer_own(void);

#endif
