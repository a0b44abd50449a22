#define _GNU_SOURCE
#include "TestWorkloads.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, visibility("default"), used))

static volatile uint64_t sink;

uint64_t workload_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool goes_on(uint64_t deadline_ns, const volatile int *stop) {
  return workload_now_ns() < deadline_ns && !(stop && __atomic_load_n(stop, __ATOMIC_RELAXED));
}

KEPT void workload_spin(uint64_t deadline_ns, const volatile int *stop) {
  uint64_t value = 1;
  while (goes_on(deadline_ns, stop))
    for (int round = 0; round < 10000; round++)
      value = value * UINT64_C(6364136223846793005) + 1;
  sink = value; /* a store after the loop, which prevents a tail call */
}

KEPT void workload_recurse(int depth, uint64_t deadline_ns, const volatile int *stop) {
  volatile uint8_t frame[512];
  frame[depth % 512] = (uint8_t)depth;
  if (depth > 0)
    workload_recurse(depth - 1, deadline_ns, stop);
  else
    workload_spin(deadline_ns, stop);
  sink += frame[depth % 512];
}

static struct {
  uint64_t deadline_ns;
  const volatile int *stop;
} coroutine_arguments;

KEPT void workload_coroutine_body(void) {
  workload_spin(coroutine_arguments.deadline_ns, coroutine_arguments.stop);
  sink++;
}

KEPT void workload_spin_on_coroutine(uint64_t bytes, uint64_t deadline_ns, const volatile int *stop) {
  ucontext_t here, there;
  void *stack = malloc(bytes);
  coroutine_arguments.deadline_ns = deadline_ns;
  coroutine_arguments.stop = stop;
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = bytes;
  there.uc_link = &here;
  makecontext(&there, workload_coroutine_body, 0);
  swapcontext(&here, &there);
  free(stack);
}

/* In assembly, for known unwind tables in the epilogue: after "pop %rbp" the saved frame pointer of the caller is below
 * the stack pointer. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl workload_short_epilogue\n"
        ".type workload_short_epilogue, @function\n"
        "workload_short_epilogue:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "mov $0, %rbp\n"
        "pop %rbp\n"
        ".cfi_def_cfa_offset 8\n"
        "mov $2000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size workload_short_epilogue, . - workload_short_epilogue\n");
void workload_short_epilogue(void);
#else
static void workload_short_epilogue(void) { sink++; }
#endif

KEPT void workload_epilogues(uint64_t deadline_ns, const volatile int *stop) {
  while (goes_on(deadline_ns, stop))
    for (int round = 0; round < 100; round++)
      workload_short_epilogue();
  sink++;
}

static atomic_int signals;

int workload_signals(void) { return signals; }

void workload_on_signal(int signal) {
  (void)signal;
  signals++;
}

bool workload_has_handler(void) {
  struct sigaction current;
  sigaction(SIGPROF, NULL, &current);
  return current.sa_handler != SIG_DFL;
}

void workload_install_handler(void) { signal(SIGPROF, workload_on_signal); }

void workload_raise(void) { raise(SIGPROF); }

struct call {
  void (*body)(void *);
  void *context;
};

static void *run_call(void *argument) {
  struct call *call = argument;
  call->body(call->context);
  return NULL;
}

void workload_on_thread(void (*body)(void *), void *context) {
  struct call call = {body, context};
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_call, &call) == 0)
    pthread_join(thread, NULL);
}

static void *run_call_and_leave(void *argument) {
  run_call(argument);
  syscall(SYS_exit, 0);
  return NULL;
}

void workload_on_bare_thread(void (*body)(void *), void *context) {
  struct call call = {body, context};
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_call_and_leave, &call) == 0)
    pthread_join(thread, NULL);
}

struct workload_thread {
  pthread_t thread;
  void (*body)(void *, const volatile int *);
  void *context;
  volatile int stop;
};

static void *run_thread(void *argument) {
  struct workload_thread *thread = argument;
  thread->body(thread->context, &thread->stop);
  return NULL;
}

struct workload_thread *workload_thread_start(void (*body)(void *, const volatile int *), void *context) {
  struct workload_thread *thread = calloc(1, sizeof *thread);
  thread->body = body;
  thread->context = context;
  pthread_create(&thread->thread, NULL, run_thread, thread);
  return thread;
}

void workload_thread_stop(struct workload_thread *thread) {
  __atomic_store_n(&thread->stop, 1, __ATOMIC_RELAXED);
  pthread_join(thread->thread, NULL);
  free(thread);
}

void workload_file_of_symbol(const char *name, char *file, uint64_t length) {
  Dl_info information;
  file[0] = 0;
  void *symbol = dlsym(RTLD_DEFAULT, name);
  if (length > 0 && symbol && dladdr(symbol, &information) && information.dli_fname)
    strncat(file, information.dli_fname, length - 1);
}

static atomic_int interrupted;

int workload_interrupted(void) { return interrupted; }

static struct {
  atomic_int over;
  int pipe[2];
  sem_t semaphore;
  pthread_mutex_t mutex, condition_mutex;
  pthread_cond_t condition;
} block = {.mutex = PTHREAD_MUTEX_INITIALIZER,
           .condition_mutex = PTHREAD_MUTEX_INITIALIZER,
           .condition = PTHREAD_COND_INITIALIZER};

void workload_prepare_block(void) {
  block.over = 0;
  interrupted = 0;
  if (pipe(block.pipe) != 0)
    abort();
  sem_init(&block.semaphore, 0, 0);
  pthread_mutex_lock(&block.mutex);
}

void workload_unblock(void) {
  block.over = 1;
  pthread_mutex_unlock(&block.mutex);
  sem_post(&block.semaphore);
  pthread_mutex_lock(&block.condition_mutex);
  pthread_cond_broadcast(&block.condition);
  pthread_mutex_unlock(&block.condition_mutex);
  close(block.pipe[1]); /* ends reads and polls */
}

static void count_interruption(int result) {
  if (result < 0 && errno == EINTR)
    interrupted++;
}

KEPT void workload_block(enum workload_block kind) {
  char byte;
  struct timespec half = {0, 500000000};
  switch (kind) {
  case WORKLOAD_READ:
    count_interruption((int)read(block.pipe[0], &byte, 1));
    break;
  case WORKLOAD_SEMAPHORE:
    while (!block.over)
      count_interruption(sem_wait(&block.semaphore));
    break;
  case WORKLOAD_MUTEX:
    pthread_mutex_lock(&block.mutex);
    pthread_mutex_unlock(&block.mutex);
    break;
  case WORKLOAD_CONDITION:
    pthread_mutex_lock(&block.condition_mutex);
    while (!block.over)
      pthread_cond_wait(&block.condition, &block.condition_mutex);
    pthread_mutex_unlock(&block.condition_mutex);
    break;
  case WORKLOAD_NANOSLEEP:
    while (!block.over)
      count_interruption(nanosleep(&half, NULL));
    break;
  case WORKLOAD_POLL: {
    struct pollfd polled = {block.pipe[0], POLLIN, 0};
    while (!block.over)
      count_interruption(poll(&polled, 1, 10000));
    break;
  }
  case WORKLOAD_EPOLL: {
    int set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {0}};
    epoll_ctl(set, EPOLL_CTL_ADD, block.pipe[0], &event);
    while (!block.over)
      count_interruption(epoll_wait(set, &event, 1, 10000));
    close(set);
    break;
  }
  case WORKLOAD_SELECT: {
    while (!block.over) {
      fd_set set;
      FD_ZERO(&set);
      FD_SET(block.pipe[0], &set);
      struct timeval timeout = {10, 0};
      count_interruption(select(block.pipe[0] + 1, &set, NULL, NULL, &timeout));
    }
    break;
  }
  case WORKLOAD_TIMED_SEMAPHORE: {
    while (!block.over) {
      struct timespec until;
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_sec += 1;
      count_interruption(sem_timedwait(&block.semaphore, &until));
    }
    break;
  }
  default:
    abort();
  }
  sink++;
}

/* Without .cfi directives, so the unwind table has no entry for this function. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl workload_bare\n"
        ".type workload_bare, @function\n"
        "workload_bare:\n"
        "push %rbp\n"
        "push %rbx\n"
        "mov $8, %rbp\n"
        "mov $20000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "pop %rbx\n"
        "pop %rbp\n"
        "ret\n"
        ".size workload_bare, . - workload_bare\n");
void workload_bare(void);
#else
static void workload_bare(void) { sink++; }
#endif

KEPT void workload_without_unwind_information(uint64_t deadline_ns, const volatile int *stop) {
  while (goes_on(deadline_ns, stop))
    for (int round = 0; round < 50; round++)
      workload_bare();
  sink++;
}

/* Without this system call, clone(2) is equivalent. */
#if defined(SYS_vfork)
const int64_t workload_call_vfork = SYS_vfork;
#else
const int64_t workload_call_vfork = SYS_clone;
#endif
