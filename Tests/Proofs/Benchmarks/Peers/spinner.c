#define _GNU_SOURCE
#include "peers.h"

#include <dlfcn.h>
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define TEXT(name) #name
#define NAME_OF(name) TEXT(name)

enum { HANDLER_STACK_BYTES = 128 << 10, COROUTINE_STACK_BYTES = 256 << 10, UNTOUCHED = 0xa5 };

struct peer_spinner {
  uint32_t frames;
  size_t frame_bytes;
  bool coroutine;
  void (*prepare)(void);
  ucontext_t thread_context, coroutine_context;
  uint8_t *coroutine_stack;
  uint8_t *handler_stack;
  pthread_t thread;
  _Atomic pid_t tid;
  _Atomic bool stop;
};

static struct {
  __typeof__(&unw_init_local2) init_local2;
  __typeof__(&unw_step) step;
  __typeof__(&unw_flush_cache) flush_cache;
  unw_addr_space_t *local_addr_space;
} unwinder;

/* Options and results of the handlers. */
static _Atomic uint32_t interrupted;
static bool is_cold;
static uint64_t unwind_ns;
static uint32_t unwound;

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void peer_accept_signals(void) {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGUSR1);
  sigaddset(&ours, SIGUSR2);
  pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
}

static void do_nothing(int signal) {
  (void)signal;
  atomic_fetch_add(&interrupted, 1);
}

static void unwind(int signal, siginfo_t *information, void *context) {
  (void)signal;
  (void)information;
  if (is_cold)
    unwinder.flush_cache(*unwinder.local_addr_space, 0, 0);
  uint64_t began = now_ns();
  unw_cursor_t cursor;
  unwound = 0;
  if (unwinder.init_local2(&cursor, context, UNW_INIT_SIGNAL_FRAME) == 0)
    do
      unwound++;
    while (unwinder.step(&cursor) > 0);
  unwind_ns = now_ns() - began;
  atomic_fetch_add(&interrupted, 1);
}

static __attribute__((noinline)) void spin(const struct peer_spinner *self) {
  while (!atomic_load_explicit(&self->stop, memory_order_relaxed))
    ;
}

static __attribute__((noinline)) int descend(struct peer_spinner *self, uint32_t frames) {
  volatile uint8_t *room = __builtin_alloca(self->frame_bytes);
  room[0] = (uint8_t)frames;
  if (frames > 1)
    return descend(self, frames - 1) + room[0];
  atomic_store(&self->tid, (pid_t)syscall(SYS_gettid));
  spin(self);
  return room[0];
}

static struct peer_spinner *_Atomic starting;

static void run_coroutine(void) {
  struct peer_spinner *self = atomic_load(&starting);
  descend(self, self->frames);
}

static void *run(void *argument) {
  struct peer_spinner *self = argument;
  stack_t stack = {.ss_sp = self->handler_stack, .ss_size = HANDLER_STACK_BYTES};
  sigaltstack(&stack, NULL);
  peer_accept_signals();
  self->prepare();
  if (self->coroutine) {
    getcontext(&self->coroutine_context);
    self->coroutine_context.uc_stack.ss_sp = self->coroutine_stack;
    self->coroutine_context.uc_stack.ss_size = COROUTINE_STACK_BYTES;
    self->coroutine_context.uc_link = &self->thread_context;
    makecontext(&self->coroutine_context, run_coroutine, 0);
    swapcontext(&self->thread_context, &self->coroutine_context);
  } else {
    descend(self, self->frames);
  }
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, NULL);
  return NULL;
}

struct peer_spinner *peer_spinner_start(uint32_t frames, size_t live_bytes, bool coroutine, void (*prepare)(void)) {
  struct sigaction nothing = {.sa_handler = do_nothing, .sa_flags = SA_RESTART | SA_ONSTACK};
  struct sigaction unwinding = {.sa_sigaction = unwind, .sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK};
  struct peer_spinner *self = calloc(1, sizeof *self);
  if (!self || sigaction(SIGUSR2, &nothing, NULL) != 0 || sigaction(SIGUSR1, &unwinding, NULL) != 0) {
    free(self);
    return NULL;
  }
  /* Stack overhead of a call and of alloca. */
  size_t around = 156, share = live_bytes / frames;
  self->frames = frames;
  self->frame_bytes = share > around + 16 ? share - around : 16;
  self->coroutine = coroutine;
  self->prepare = prepare;
  self->handler_stack = malloc(HANDLER_STACK_BYTES);
  self->coroutine_stack = malloc(COROUTINE_STACK_BYTES);
  atomic_store(&starting, self);
  if (!self->handler_stack || !self->coroutine_stack || pthread_create(&self->thread, NULL, run, self) != 0) {
    free(self->handler_stack);
    free(self->coroutine_stack);
    free(self);
    return NULL;
  }
  while (atomic_load(&self->tid) == 0)
    sched_yield();
  return self;
}

pid_t peer_spinner_thread(const struct peer_spinner *spinner) { return atomic_load(&spinner->tid); }

void peer_spinner_stop(struct peer_spinner *spinner) {
  atomic_store(&spinner->stop, true);
  pthread_join(spinner->thread, NULL);
  free(spinner->handler_stack);
  free(spinner->coroutine_stack);
  free(spinner);
}

void peer_spinner_forget_handlers(struct peer_spinner *spinner) {
  memset(spinner->handler_stack, UNTOUCHED, HANDLER_STACK_BYTES);
}

size_t peer_spinner_handler_bytes(const struct peer_spinner *spinner) {
  size_t at = 0;
  while (at < HANDLER_STACK_BYTES && spinner->handler_stack[at] == UNTOUCHED)
    at++;
  return HANDLER_STACK_BYTES - at;
}

/* Sends SPINNER the signal NUMBER and waits until its handler has run. */
static void interrupt(struct peer_spinner *spinner, int number) {
  uint32_t before = atomic_load(&interrupted);
  pthread_kill(spinner->thread, number);
  while (atomic_load(&interrupted) == before)
    sched_yield();
}

void peer_spinner_interrupt(struct peer_spinner *spinner) { interrupt(spinner, SIGUSR2); }

const char *peer_unwinder_start(void) {
  void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return "libunwind.so.8 cannot be loaded";
  const struct {
    void *function;
    const char *name;
  } wanted[] = {
      {&unwinder.init_local2, NAME_OF(unw_init_local2)},
      {&unwinder.step, NAME_OF(unw_step)},
      {&unwinder.flush_cache, NAME_OF(unw_flush_cache)},
      {&unwinder.local_addr_space, NAME_OF(unw_local_addr_space)},
  };
  for (size_t index = 0; index < sizeof wanted / sizeof wanted[0]; index++) {
    void *symbol = dlsym(library, wanted[index].name);
    if (!symbol)
      return wanted[index].name;
    memcpy(wanted[index].function, &symbol, sizeof symbol);
  }
  return NULL;
}

uint64_t peer_unwind_in_handler(struct peer_spinner *spinner, bool cold, uint32_t *frames) {
  is_cold = cold;
  interrupt(spinner, SIGUSR1);
  *frames = unwound;
  return unwound > 1 ? unwind_ns : 0;
}
