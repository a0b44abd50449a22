#define _GNU_SOURCE
#include "kernel_waits.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* LEFT_BYTES: less than the kernel needs for a signal on any processor (AT_MINSIGSTKSZ is 1,776 or more). */
enum { PAGE = 4096, STACK_BYTES = 5 * PAGE, LEFT_BYTES = 1 << 10 };

#if defined(__clang__)
#define BARE __attribute__((noinline, no_stack_protector))
#else
#define BARE __attribute__((noinline, optimize("no-stack-protector")))
#endif

struct computation {
  int milliseconds;
  void (*mark)(bool begins);
  uint8_t *stack; /* its lowest address */
};

/* Returns a stack of STACK_BYTES above an inaccessible page. */
static uint8_t *make_stack(void) {
  uint8_t *pages = mmap(NULL, PAGE + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + PAGE, STACK_BYTES, PROT_READ | PROT_WRITE) != 0)
    return NULL;
  return pages + PAGE;
}

/* Needs no thread pointer and little stack. */
BARE static void spend(int milliseconds) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + milliseconds;
  while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < end) {
    for (volatile int turn = 0; turn < 1000; turn++)
      ;
    clock_gettime(CLOCK_MONOTONIC, &now);
  }
}

__attribute__((noinline)) static void compute_far_down(const struct computation *computation) {
  uint8_t *here = __builtin_frame_address(0);
  volatile uint8_t *room = __builtin_alloca((size_t)(here - computation->stack) - LEFT_BYTES);
  room[0] = 1;
  spend(computation->milliseconds);
  room[0] = 2;
}

static void *run(void *argument) {
  const struct computation *computation = argument;
  if (computation->mark)
    computation->mark(true);
  compute_far_down(computation);
  if (computation->mark)
    computation->mark(false);
  return NULL;
}

int compute_with_little_stack(int milliseconds, void (*mark)(bool begins)) {
  struct computation computation = {milliseconds, mark, make_stack()};
  pthread_attr_t attributes;
  pthread_t thread;
  if (!computation.stack)
    return ENOMEM;
  /* Calls clock_gettime once: the dynamic linker needs much stack for the first call. */
  spend(0);
  pthread_attr_init(&attributes);
  int error = pthread_attr_setstack(&attributes, computation.stack, STACK_BYTES);
  if (error == 0)
    error = pthread_create(&thread, &attributes, run, &computation);
  pthread_attr_destroy(&attributes);
  return error == 0 ? pthread_join(thread, NULL) : error;
}

BARE static int run_bare(void *milliseconds) {
  spend((int)(intptr_t)milliseconds);
  return 0;
}

int compute_on_bare_thread(int milliseconds) {
  uint8_t *stack = make_stack();
  int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
  if (!stack)
    return ENOMEM;
  int result = clone(run_bare, stack + STACK_BYTES, flags, (void *)(intptr_t)milliseconds, NULL, NULL, NULL);
  return result < 0 ? errno : 0;
}
