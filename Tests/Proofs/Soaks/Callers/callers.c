/* The calling threads, and the thread that wakes them. */
#define _GNU_SOURCE
#include "callers.h"

#include "SoakCallers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct caller *callers;
static int callers_count;
static int callers_per_kind;
static int callers_open;
static int callers_running;
static _Atomic bool is_over;    /* the callers must end */
static _Atomic int ended_count; /* ended callers */
static pthread_t waker;
static _Thread_local struct caller *self;

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014). */
uint64_t next_random(struct caller *caller) {
  uint64_t mixed = caller->random += UINT64_C(0x9e3779b97f4a7c15);
  mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
  return mixed ^ (mixed >> 31);
}

uint64_t random_between_powers(struct caller *caller, int low, int high) {
  uint64_t power = UINT64_C(1) << (low + (int)(next_random(caller) % (uint64_t)(high - low + 1)));
  return power + next_random(caller) % power;
}

uint64_t now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

bool is_blocked_in_call(struct caller *caller) {
  char first;
  if (caller->status_file < 0) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)atomic_load(&caller->tid));
    caller->status_file = open(path, O_RDONLY | O_CLOEXEC);
  }
  /* "running", the number of the system call, or "-1" if blocked outside a call: proc(5). */
  return pread(caller->status_file, &first, 1, 0) == 1 && first >= '0' && first <= '9';
}

static void count_signal(int signal) {
  (void)signal;
  if (self)
    self->signals++;
}

/* Computes between two calls: mostly for microseconds, to let samples hit the beginning of the next call; sometimes for
 * several kernel ticks, to let signals hit the computation. */
__attribute__((noinline)) static void compute(struct caller *caller) {
  bool is_long = next_random(caller) % 64 == 0;
  uint64_t end = now_ns(CLOCK_MONOTONIC) + random_between_powers(caller, is_long ? 20 : 10, is_long ? 23 : 13);
  volatile uint64_t value = caller->random;
  while (now_ns(CLOCK_MONOTONIC) < end)
    for (int round = 0; round < 50; round++)
      value = value * UINT64_C(6364136223846793005) + 1;
}

static void *run_caller(void *argument) {
  struct caller *caller = argument;
  self = caller;
  atomic_store(&caller->tid, (int32_t)syscall(SYS_gettid));
  for (uint64_t call = 1; !atomic_load(&is_over); call++) {
    compute(caller);
    atomic_store(&caller->call, call);
    enum outcome outcome = caller->kind->call(caller);
    atomic_store(&caller->call, 0);
    atomic_fetch_add_explicit(&caller->outcomes[outcome], 1, memory_order_relaxed);
  }
  atomic_fetch_add(&ended_count, 1);
  return NULL;
}

/* Runs until every caller has ended, because the last calls end only when woken. */
static void *run_waker(void *argument) {
  struct caller dice = {.random = (uint64_t)(uintptr_t)argument};
  while (atomic_load(&ended_count) < callers_running) {
    for (int index = 0; index < callers_running; index++)
      if (callers[index].kind->wake && next_random(&dice) % 4 == 0)
        callers[index].kind->wake(&callers[index]);
    struct timespec pause = {0, (long)random_between_powers(&dice, 15, 19)};
    nanosleep(&pause, NULL);
  }
  return NULL;
}

/* Ends the running threads and frees their resources. */
static void end(void) {
  atomic_store(&is_over, true);
  for (int index = 0; index < callers_running; index++)
    pthread_join(callers[index].thread, NULL);
  pthread_join(waker, NULL);
  for (int index = 0; index < callers_open; index++) {
    if (callers[index].kind->close)
      callers[index].kind->close(&callers[index]);
    if (callers[index].status_file >= 0)
      close(callers[index].status_file);
  }
}

static int begin(uint64_t seed) {
  for (; callers_open < callers_count; callers_open++) {
    struct caller *caller = &callers[callers_open];
    *caller = (struct caller){
        .kind = &kinds[callers_open / callers_per_kind], .random = seed + (uint64_t)callers_open, .status_file = -1};
    if (caller->kind->open && !caller->kind->open(caller))
      return errno;
  }
  for (; callers_running < callers_count; callers_running++) {
    struct caller *caller = &callers[callers_running];
    int error = pthread_create(&caller->thread, NULL, run_caller, caller);
    if (error != 0)
      return error;
    pthread_setname_np(caller->thread, "soak caller");
    while (atomic_load(&caller->tid) == 0)
      sched_yield();
  }
  return 0;
}

int soak_kinds(void) { return kinds_count(); }

bool soak_may_return_early(int kind) { return kind_may_return_early(kind); }

const char *soak_kind_name(int kind) { return kinds[kind].name; }

int soak_start(int per_kind, uint64_t seed) {
  callers_per_kind = per_kind;
  callers_count = per_kind * kinds_count();
  callers_open = callers_running = 0;
  atomic_store(&is_over, false);
  atomic_store(&ended_count, 0);
  free(callers);
  callers = calloc((size_t)callers_count, sizeof *callers);
  if (!callers)
    return ENOMEM;
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  /* The inherited signal mask must not matter. */
  sigset_t awaited, handled, before;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGUSR2);
  sigemptyset(&handled);
  sigaddset(&handled, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &awaited, &before);
  pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
  int error = begin(seed);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  /* Without the waker some of the started threads would never end. */
  if (pthread_create(&waker, NULL, run_waker, (void *)(uintptr_t)seed) != 0)
    abort();
  if (error != 0)
    end();
  return error;
}

void soak_stop(void) { end(); }

int32_t soak_thread(int index) { return atomic_load(&callers[index].tid); }

struct soak_counts soak_counts(int kind) {
  struct soak_counts counts = {0};
  for (int index = kind * callers_per_kind; index < (kind + 1) * callers_per_kind; index++) {
    _Atomic uint64_t *outcomes = callers[index].outcomes;
    for (int outcome = 0; outcome < OUTCOMES; outcome++)
      counts.calls += atomic_load_explicit(&outcomes[outcome], memory_order_relaxed);
    counts.woken += atomic_load_explicit(&outcomes[WOKEN], memory_order_relaxed);
    counts.interrupted += atomic_load_explicit(&outcomes[INTERRUPTED], memory_order_relaxed);
    counts.early += atomic_load_explicit(&outcomes[EARLY], memory_order_relaxed);
    uint64_t early = atomic_load_explicit(&callers[index].most_early_ns, memory_order_relaxed);
    counts.most_early_ns = early > counts.most_early_ns ? early : counts.most_early_ns;
    counts.unexpected += atomic_load_explicit(&outcomes[UNEXPECTED], memory_order_relaxed);
  }
  return counts;
}
