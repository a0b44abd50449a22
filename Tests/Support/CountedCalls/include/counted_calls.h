/* Counts calls of the allocator, locks and the loader by chosen threads. The executable defines these functions, which
 * replace the C library's in the whole process. */
#ifndef COUNTED_CALLS_H
#define COUNTED_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Calls counted for one thread. */
struct counted_calls {
  uint64_t allocations;  /* malloc, calloc, realloc, free, posix_memalign, aligned_alloc, memalign */
  uint64_t locks;        /* pthread_once, and calls that lock or wait for a condition or semaphore */
  uint64_t loader_calls; /* dlopen, dladdr, dl_iterate_phdr: they take the loader's lock */
  char first[256];       /* the first counted call and its caller; empty: none */
};

/* Starts counting the calls of thread TID. Returns the index of the counter, or -1 after COUNTED_THREADS_MAX
 * threads. */
enum { COUNTED_THREADS_MAX = 8 };
int counted_calls_begin(pid_t tid);

/* Returns the calls counted at the index PLACE. */
struct counted_calls counted_calls_of(int place);

/* Returns the calling thread's id. */
pid_t counted_calls_own_thread(void);

/* Returns the id of the thread named NAME, or 0 without such a thread. */
pid_t counted_calls_find(const char *name);

/* Computes without calling any function until *STOP is not 0. */
void counted_calls_compute(const volatile int *stop);

/* Sleeps for MILLISECONDS by a bare system call. */
void counted_calls_sleep(unsigned milliseconds);

#endif
