/* Shared parts of the calls and the calling threads. */
#ifndef CALLERS_H
#define CALLERS_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The result of a call. */
enum outcome { TIMED_OUT, WOKEN, INTERRUPTED, EARLY, UNEXPECTED, OUTCOMES };

/* A thread and the objects that it waits for. */
struct caller {
  const struct kind *kind;
  uint64_t random; /* the state of the random number generator */
  int descriptors[4];
  int semaphores; /* a System V set */
  sem_t semaphore;
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  void *ring; /* io_uring.h */
  pthread_t thread;
  _Atomic int32_t tid;
  _Atomic uint64_t call;         /* the number of the present call, the only one that can block; 0: none */
  volatile sig_atomic_t signals; /* handled SIGUSR1s */
  int status_file;               /* /proc/self/task/TID/syscall; for the waker */
  uint64_t woken_call;           /* the last woken call; for the waker */
  _Atomic uint64_t outcomes[OUTCOMES];
  _Atomic uint64_t most_early_ns; /* by how much the earliest call returned early */
};

/* One kind of call. */
struct kind {
  const char *name;
  bool (*open)(struct caller *caller);         /* creates the objects that CALLER waits for; NULL: none */
  enum outcome (*call)(struct caller *caller); /* waits once */
  void (*wake)(
      struct caller *caller); /* ends a wait without a timeout; called repeatedly; NULL: all waits have timeouts */
  void (*close)(struct caller *caller); /* frees the objects of open */
};

extern const struct kind kinds[];

/* The number of available kinds. */
int kinds_count(void);

/* Whether KIND is known to return early. */
bool kind_may_return_early(int kind);

/* Returns the next random number of CALLER. */
uint64_t next_random(struct caller *caller);

/* Returns a random number of at least 1 << LOW and less than 2 << HIGH, with each power of two equally likely. */
uint64_t random_between_powers(struct caller *caller, int low, int high);

/* Returns the time of CLOCK in nanoseconds. */
uint64_t now_ns(clockid_t clock);

/* Whether the kernel shows CALLER blocked in a system call. */
bool is_blocked_in_call(struct caller *caller);

#endif
