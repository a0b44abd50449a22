/* Counts the calls of the allocator and of lock functions by chosen threads. Defined in the executable, the functions
 * replace the C library's for every library in the process. */
#ifndef COUNTED_CALLS_H
#define COUNTED_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Calls counted for one thread. */
struct counted_calls {
  uint64_t allocations; /* malloc, calloc, realloc, free, posix_memalign, aligned_alloc, memalign, … */
  uint64_t locks; /* taking a mutex, read-write lock, spin lock, semaphore, waiting for a condition, pthread_once */
  uint64_t loader_calls; /* dlopen, dlsym, dladdr, dl_iterate_phdr: they take the loader's lock */
  char first[256];       /* the first call that was counted, and where it was made; empty: none */
};

/* Begins to count the calls of thread TID. At most COUNTED_THREADS_MAX threads are counted. Returns its place. */
enum { COUNTED_THREADS_MAX = 8 };
int counted_calls_begin(pid_t tid);

/* Returns the calls of the thread in PLACE since counted_calls_begin. */
struct counted_calls counted_calls_of(int place);

/* Returns the calling thread's id. */
pid_t counted_calls_own_thread(void);

/* Returns the id of the thread of this process that is called NAME, 0 if there is none. */
pid_t counted_calls_find(const char *name);

/* Computes without calling any function until *STOP is not 0. */
void counted_calls_compute(const volatile int *stop);

/* Sleeps for MILLISECONDS by a bare system call. */
void counted_calls_sleep(unsigned milliseconds);

#endif
