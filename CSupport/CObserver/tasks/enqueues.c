#include "tasks/observer_enqueues.h"

#include <pthread.h>

/* Passed by the runtime to the hook; enqueues the job. */
typedef __attribute__((swiftcall)) void enqueue_function(void *job);
typedef __attribute__((swiftcall)) void enqueue_hook(void *job, enqueue_function *enqueue);

extern enqueue_hook *swift_task_enqueueGlobal_hook __attribute__((weak));

enum { COUNTS = 4096, TASK_ALIGNMENT = 16 };

static _Atomic uint32_t counts[COUNTS];
static enqueue_hook *next_hook;

static _Atomic uint32_t *count_of(uint64_t task) {
  /* The large odd factor makes all bits of an address affect the index. */
  return &counts[task / TASK_ALIGNMENT * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static __attribute__((swiftcall)) void count(void *job, enqueue_function *enqueue) {
  atomic_fetch_add_explicit(count_of((uintptr_t)job), 1, memory_order_relaxed);
  if (next_hook)
    next_hook(job, enqueue);
  else
    enqueue(job);
}

static void set_hook(void) {
  next_hook = swift_task_enqueueGlobal_hook;
  __atomic_store_n(&swift_task_enqueueGlobal_hook, count, __ATOMIC_RELEASE);
}

bool observer_enqueues_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!&swift_task_enqueueGlobal_hook)
    return false;
  pthread_once(&once, set_hook);
  return true;
}

uint32_t observer_enqueues_of(uint64_t task) { return atomic_load_explicit(count_of(task), memory_order_relaxed); }
