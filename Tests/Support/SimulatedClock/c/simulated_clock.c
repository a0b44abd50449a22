/* Makes reports treat the clock as a dependency, and blame its callers. */
#line 3 ".build/checkouts/simulated-clock/simulated_clock.c"
#define _GNU_SOURCE
#include "simulated_clock.h"

#include "clinux_clock.h"
#include "clinux_wait.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { WAITERS_MAX = 1024, SLEEPERS_MAX = 256 };

struct waiter {
  const _Atomic uint32_t *word; /* NULL: the entry is free */
  uint32_t expected;
  uint64_t deadline_ns;
  uint32_t simulation; /* the simulation in which the wait began, or 0 */
  bool needs_time;     /* a test waits for this thread: time passes meanwhile */
};

/* A thread that blocks until a time, or a time that the clock must reach. */
struct sleeper {
  sem_t released;
  uint64_t until_ns;
  bool is_used, is_blocked, is_released;
  bool counts; /* whether the thread works for the watchdog unless it is blocked */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Signalled when a condition of the driver has changed. */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct waiter waiters[WAITERS_MAX];
static struct sleeper sleepers[SLEEPERS_MAX];
/* Threads of the watchdog that are neither waiting nor ended. */
static int working;
/* The number of simulations so far. */
static uint32_t simulation;
static bool (*is_busy)(void);
/* The maximum number of half milliseconds that the driver waits for is_busy: a thread whose stack was requested might
 * be unable to answer. */
static uint64_t patience;

/* The simulated time, or 0 outside simulations; and the advance over the kernel's clock. */
static _Atomic uint64_t simulated_ns, ahead_ns;
/* CLOCK_REALTIME minus CLOCK_MONOTONIC. */
static _Atomic int64_t wall_offset_ns;

static _Thread_local bool is_ours, is_tests, is_idle;

static uint64_t kernel_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(clockid_t clock) {
  /* The watchdog compares CLOCK_BOOTTIME with the start times of threads, which the kernel sets. */
  if (clock == CLOCK_BOOTTIME)
    return kernel_ns(clock);
  uint64_t now = atomic_load(&simulated_ns);
  if (now == 0)
    now = kernel_ns(clock == CLOCK_MONOTONIC_COARSE ? clock : CLOCK_MONOTONIC) + atomic_load(&ahead_ns);
  return clock == CLOCK_REALTIME ? now + (uint64_t)atomic_load(&wall_offset_ns) : now;
}

static bool is_simulated(void) { return atomic_load(&simulated_ns) != 0; }

/* Signals the driver if it can advance the time. */
static void signal_driver(void) {
  if (working == 0)
    pthread_cond_signal(&changed);
}

static void set_working(bool works) {
  working += works ? 1 : -1;
  signal_driver();
}

static bool is_named(const char *name) {
  char own[16];
  return prctl(PR_GET_NAME, own) == 0 && strcmp(own, name) == 0;
}

static void wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
  pthread_mutex_lock(&lock);
  struct waiter *waiter = waiters;
  while (waiter < waiters + WAITERS_MAX && waiter->word)
    waiter++;
  if (waiter == waiters + WAITERS_MAX) {
    fprintf(stderr, "simulated clock: more than %d threads wait\n", WAITERS_MAX);
    abort();
  }
  bool has_simulation = is_simulated();
  *waiter = (struct waiter){.word = word,
                            .expected = expected,
                            .deadline_ns = deadline_ns,
                            .simulation = has_simulation ? simulation : 0,
                            /* Tasks of tests wait for the thread "culprit-async". */
                            .needs_time = !is_ours || is_tests || is_named("culprit-async")};
  bool counts = is_ours && !is_idle;
  if (counts)
    working--;
  signal_driver();
  uint64_t kernel_deadline_ns = UINT64_MAX;
  if (!has_simulation && deadline_ns != UINT64_MAX) {
    uint64_t ahead = atomic_load(&ahead_ns);
    kernel_deadline_ns = deadline_ns > ahead ? deadline_ns - ahead : 0;
  }
  /* The escalation thread restarts a timer of the kernel at every return. It must return even while simulated time
   * stops, because the timer ends the process after 6 s. */
  if (has_simulation && is_named("culprit-escalat"))
    kernel_deadline_ns = kernel_ns(CLOCK_MONOTONIC) + UINT64_C(1000000000);
  bool is_due = now_ns(CLOCK_MONOTONIC) >= deadline_ns;
  pthread_mutex_unlock(&lock);
  if (!is_due)
    clinux_wait_in_kernel(word, expected, kernel_deadline_ns);
  pthread_mutex_lock(&lock);
  waiter->word = NULL;
  if (counts)
    working++;
  pthread_mutex_unlock(&lock);
}

static void thread_reached(enum clinux_thread_step step) {
  pthread_mutex_lock(&lock);
  switch (step) {
  case CLINUX_THREAD_CREATED:
    set_working(true);
    break;
  case CLINUX_THREAD_BEGAN:
    is_ours = true;
    break;
  case CLINUX_THREAD_REFUSED:
  case CLINUX_THREAD_ENDS:
    set_working(false);
    break;
  }
  pthread_mutex_unlock(&lock);
}

void simulated_clock_thread_created(void) { thread_reached(CLINUX_THREAD_CREATED); }

void simulated_clock_thread_began(void) {
  is_tests = true;
  thread_reached(CLINUX_THREAD_BEGAN);
}

void simulated_clock_thread_ends(void) {
  is_ours = is_tests = false;
  thread_reached(CLINUX_THREAD_ENDS);
}

void simulated_clock_set_idle(bool idle) {
  pthread_mutex_lock(&lock);
  if (is_ours && idle != is_idle) {
    is_idle = idle;
    set_working(!idle);
  }
  pthread_mutex_unlock(&lock);
}

/* The driver. All functions are called with the lock held. */

/* Waits for a signal, for MICROSECONDS at most: changes of a word are not signalled. */
static void wait_for_change(long microseconds) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += microseconds * 1000;
  end.tv_sec += end.tv_nsec / 1000000000;
  end.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&changed, &lock, &end);
}

/* Wakes the threads whose wait is over at NOW. Returns whether there are any. */
static bool wake_due(uint64_t now) {
  bool any = false;
  for (struct waiter *waiter = waiters; waiter < waiters + WAITERS_MAX; waiter++) {
    if (!waiter->word || (waiter->deadline_ns > now && atomic_load(waiter->word) == waiter->expected))
      continue;
    clinux_wake(waiter->word);
    any = true;
  }
  return any;
}

static void release_one(struct sleeper *sleeper) {
  sleeper->is_released = true;
  sleeper->is_used = sleeper->is_blocked;
  working += sleeper->counts;
  if (sleeper->is_blocked)
    sem_post(&sleeper->released);
}

/* Releases the sleepers whose time has come. Returns whether there are any. */
static bool release(uint64_t now) {
  bool any = false;
  for (struct sleeper *sleeper = sleepers; sleeper < sleepers + SLEEPERS_MAX; sleeper++) {
    if (!sleeper->is_used || sleeper->is_released || sleeper->until_ns > now)
      continue;
    release_one(sleeper);
    any = true;
  }
  return any;
}

/* Returns the time of the next event, or UINT64_MAX if no thread needs the time to pass. */
static uint64_t next_instant(void) {
  bool is_needed = false;
  uint64_t next = UINT64_MAX;
  for (struct sleeper *sleeper = sleepers; sleeper < sleepers + SLEEPERS_MAX; sleeper++) {
    if (!sleeper->is_used || sleeper->is_released)
      continue;
    is_needed = true;
    next = sleeper->until_ns < next ? sleeper->until_ns : next;
  }
  for (struct waiter *waiter = waiters; waiter < waiters + WAITERS_MAX; waiter++) {
    if (!waiter->word)
      continue;
    is_needed |= waiter->needs_time;
    next = waiter->deadline_ns < next ? waiter->deadline_ns : next;
  }
  return is_needed ? next : UINT64_MAX;
}

/* Wakes the threads that still wait since an earlier simulation. Returns whether there are any. */
static bool wake_left_over(void) {
  bool any = false;
  for (struct waiter *waiter = waiters; waiter < waiters + WAITERS_MAX; waiter++) {
    if (!waiter->word || waiter->simulation == 0)
      continue;
    clinux_wake(waiter->word);
    any = true;
  }
  return any;
}

/* Whether the driver waits for work that is_busy reports. WAITED counts its consecutive waits. */
static bool awaits_other_work(uint64_t *waited) {
  if (is_busy && is_busy())
    return (*waited)++ < patience;
  *waited = 0;
  return false;
}

static void *drive(void *unused) {
  (void)unused;
  uint64_t waited = 0;
  pthread_mutex_lock(&lock);
  for (;;) {
    uint64_t now = atomic_load(&simulated_ns);
    if (now == 0) {
      if (wake_left_over())
        wait_for_change(500);
      else
        pthread_cond_wait(&changed, &lock);
    } else if (wake_due(now) || working > 0) {
      wait_for_change(working > 0 ? 500 : 20);
    } else if (awaits_other_work(&waited)) {
      wait_for_change(500);
    } else if (!release(now)) {
      uint64_t next = next_instant();
      if (next == UINT64_MAX)
        pthread_cond_wait(&changed, &lock);
      else
        atomic_store(&simulated_ns, next > now ? next : now);
    }
  }
  return NULL;
}

static const struct clinux_test_clock test_clock = {
    .now_ns = now_ns, .wait = wait, .is_simulated = is_simulated, .thread_reached = thread_reached};

static void install(void) {
  atomic_store(&wall_offset_ns, (int64_t)(kernel_ns(CLOCK_REALTIME) - kernel_ns(CLOCK_MONOTONIC)));
  clinux_test_clock_install(&test_clock);
  pthread_t thread;
  if (pthread_create(&thread, NULL, drive, NULL) != 0)
    abort();
  pthread_detach(thread);
}

void simulated_clock_begin(bool (*busy)(void), uint64_t patience_ns) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
  pthread_mutex_lock(&lock);
  is_busy = busy;
  patience = patience_ns / 500000;
  simulation++;
  /* Begins at a round time, because the watchdog rounds some times. Durations are then exact. */
  uint64_t now = now_ns(CLOCK_MONOTONIC);
  atomic_store(&simulated_ns, now - now % 1000000 + 1000000);
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

void simulated_clock_end(void) {
  pthread_mutex_lock(&lock);
  atomic_store(&ahead_ns, atomic_load(&simulated_ns) - kernel_ns(CLOCK_MONOTONIC));
  atomic_store(&simulated_ns, 0);
  release(UINT64_MAX);
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

uint64_t simulated_clock_now_ns(void) { return now_ns(CLOCK_MONOTONIC); }

static struct sleeper *new_sleeper(uint64_t until_ns, bool is_blocked) {
  for (struct sleeper *sleeper = sleepers; sleeper < sleepers + SLEEPERS_MAX; sleeper++) {
    if (sleeper->is_used)
      continue;
    *sleeper = (struct sleeper){.until_ns = until_ns, .is_used = true, .is_blocked = is_blocked};
    sem_init(&sleeper->released, 0, 0);
    pthread_cond_signal(&changed);
    return sleeper;
  }
  fprintf(stderr, "simulated clock: more than %d threads sleep\n", SLEEPERS_MAX);
  abort();
}

void simulated_clock_block_until(uint64_t until_ns) {
  pthread_mutex_lock(&lock);
  if (!is_simulated()) {
    until_ns -= atomic_load(&ahead_ns);
    pthread_mutex_unlock(&lock);
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
      continue;
    return;
  }
  struct sleeper *sleeper = new_sleeper(until_ns, true);
  sleeper->counts = is_ours && !is_idle;
  if (sleeper->counts)
    set_working(false);
  pthread_mutex_unlock(&lock);
  while (sem_wait(&sleeper->released) != 0)
    continue;
  pthread_mutex_lock(&lock);
  sleeper->is_used = false;
  pthread_mutex_unlock(&lock);
}

void simulated_clock_let_pass_until(uint64_t until_ns) {
  pthread_mutex_lock(&lock);
  if (is_simulated())
    new_sleeper(until_ns, false);
  pthread_mutex_unlock(&lock);
}

void simulated_clock_skip(uint64_t duration_ns) {
  pthread_mutex_lock(&lock);
  atomic_store(&simulated_ns, atomic_load(&simulated_ns) + duration_ns);
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

void simulated_clock_step_wall(int64_t step_ns) { atomic_fetch_add(&wall_offset_ns, step_ns); }
