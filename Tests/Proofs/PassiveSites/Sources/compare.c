/* compare DIRECTORY: runs each generated call chain in a thread that blocks at the end of the chain. Reads the stack
 * from outside, captures it by signal, and compares both. DIRECTORY is for a file to lock. Prints a line for each
 * chain with different stacks. Then prints the numbers of all, equal, cut and wrong chains, and the longest CPU time of
 * an unwinding in nanoseconds. */
#define _GNU_SOURCE
#include "CObserver.h"
#include "sites.h"
#include "stack_comparison.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void *run(void *number);

static atomic_int started;
static struct observer_slot *slot;

__attribute__((noinline)) void *run(void *number) {
  observer_slot_begin(slot);
  started = 1;
  sink += site_run((int)(long)number);
  observer_slot_end(slot);
  return NULL;
}

static void finish(pthread_t thread) {
  blocks_end();
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (until.tv_nsec + 3000000) / 1000000000;
    until.tv_nsec = (until.tv_nsec + 3000000) % 1000000000;
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
      return;
    pthread_kill(thread, SIGURG); /* ends a sleep that began before `over` was set */
  }
}

/* Returns the CPU time of this thread. */
static uint64_t used_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void ignore(int signal) { (void)signal; }

static void print_frames(const char *what, const struct unwind_stack *stack) {
  printf("#   %s, end %d:", what, stack->end);
  for (uint32_t frame = 0; frame < stack->count && frame < 64; frame++) {
    Dl_info info;
    uint64_t address = stack->frames[frame].address;
    if (dladdr((void *)address, &info) && info.dli_sname)
      printf(" %s+0x%lx", info.dli_sname, (unsigned long)(address - (uint64_t)info.dli_saddr));
    else if (info.dli_fbase)
      printf(" %s+0x%lx", strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1 : info.dli_fname,
             (unsigned long)(address - (uint64_t)info.dli_fbase));
    else
      printf(" 0x%lx", (unsigned long)address);
  }
  printf("\n");
}

/* Whether STACK is marked complete and lacks the outermost function of the chains. */
static bool is_false(const struct unwind_stack *stack) {
  Dl_info info;
  for (uint32_t frame = 0; frame < stack->count; frame++)
    if (dladdr((void *)(stack->frames[frame].address - 1), &info) && info.dli_saddr == (void *)run)
      return false;
  return stack->end == UNWIND_END_OUTERMOST;
}

/* Compares OUTSIDE with SIGNALLED. If SIGNALLED is incomplete, an OUTSIDE that starts with its frames is equal. */
static enum stack_comparison compare(const struct unwind_stack *outside, struct unwind_stack *signalled) {
  if (is_false(outside))
    return STACK_WRONG;
  enum stack_comparison found = stack_compare(outside, signalled);
  /* For a signal, the kernel resets the program counter to the system call instruction. */
  if (outside->frames[0].address - signalled->frames[0].address <= 4)
    signalled->frames[0].address = outside->frames[0].address;
  if (found != STACK_EQUAL && signalled->end != UNWIND_END_OUTERMOST && outside->count >= signalled->count &&
      stack_compare(signalled, outside) == STACK_CUT)
    return STACK_EQUAL;
  return found;
}

int main(int count, char **arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: compare DIRECTORY\n");
    return 2;
  }
  const char *missing = observer_unwind_start();
  int error = missing ? ENOSYS : observer_capture_start(128 << 10);
  if (error == 0)
    error = observer_passive_start(128 << 10);
  if (error != 0) {
    fprintf(stderr, "compare: %s\n", missing ? missing : strerror(error));
    return 2;
  }
  struct sigaction action = {.sa_handler = ignore}; /* no SA_RESTART: must interrupt system calls */
  sigaction(SIGURG, &action, NULL);
  slot = observer_slot_table();
  observer_slot_configure(slot, (struct observer_limits){1, 1, 1, 1, false});
  static struct unwind_frame outside[UNWIND_FRAMES_MAX], signalled[UNWIND_FRAMES_MAX];
  char path[4096];
  snprintf(path, sizeof path, "%s/lock", arguments[1]);
  int equal = 0, cut = 0, wrong = 0;
  uint64_t slowest = 0;
  for (int number = 0; number < site_count(); number++) {
    blocks_prepare(path);
    started = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, run, (void *)(long)number);
    while (!started)
      sched_yield();
    struct observer_slot_snapshot view = observer_slot_read(slot);
    struct observer_thread_status seen;
    const struct stack_copy *copy = NULL;
    struct unwind_stack from_outside = {.frames = outside}, by_signal = {.frames = signalled};
    enum observer_capture_status status = OBSERVER_NOT_BLOCKED;
    for (int attempt = 0; attempt < 5000 && status != OBSERVER_CAPTURED; attempt++) {
      usleep(500);
      /* A chain also sleeps briefly before its final blocking call. */
      if (arrived)
        status = observer_capture_passively(view.thread, slot, view.item, &seen, &copy);
    }
    if (status == OBSERVER_CAPTURED) {
      uint64_t began = used_ns();
      observer_unwind(copy, &from_outside);
      if (used_ns() - began > slowest)
        slowest = used_ns() - began;
      status = observer_capture(view.thread, slot, view.item, UINT64_C(2000000000), &copy);
    }
    if (status == OBSERVER_CAPTURED) {
      observer_unwind(copy, &by_signal);
      observer_capture_release(copy);
    }
    enum stack_comparison found = status == OBSERVER_CAPTURED ? compare(&from_outside, &by_signal) : STACK_WRONG;
    equal += found == STACK_EQUAL;
    cut += found == STACK_CUT;
    wrong += found == STACK_WRONG;
    bool is_short = status == OBSERVER_CAPTURED && by_signal.end != UNWIND_END_OUTERMOST;
    if (found != STACK_EQUAL || is_short) {
      printf("# place %d: %s\n", number,
             found == STACK_EQUAL ? "equal, but the signal's is not complete"
             : found == STACK_CUT ? "cut"
                                  : "wrong");
      print_frames("from outside", &from_outside);
      print_frames("by signal", &by_signal);
    }
    finish(thread);
  }
  printf("%d %d %d %d %lu\n", site_count(), equal, cut, wrong, (unsigned long)slowest);
  return 0;
}
