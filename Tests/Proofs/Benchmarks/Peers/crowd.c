#define _GNU_SOURCE
#include "peers.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10 };

/* The mean interval between wakeups of the whole crowd. More threads thus use no more CPU time. */
#define PAUSE_NS UINT64_C(10000000)

struct peer_crowd {
  uint32_t wanted;
  uint32_t count; /* created threads */
  _Atomic uint32_t stop;
  _Atomic uint32_t started;
  pthread_t threads[];
};

static struct {
  pthread_t thread;
  bool runs;
  _Atomic bool stop;
  _Atomic uint64_t worst_ns;
} bystander;

/* State of peer_crowd_stop_all: the number of stopped threads, and the number of finished stops. */
static _Atomic uint32_t stopped;
static _Atomic uint32_t released;

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void compute(uint64_t length_ns) {
  uint64_t end = now_ns() + length_ns;
  while (now_ns() < end)
    ;
}

static void *sleep_mostly(void *argument) {
  struct peer_crowd *self = argument;
  peer_accept_signals();
  uint64_t random = (uint64_t)atomic_fetch_add(&self->started, 1) * 0x9e3779b97f4a7c15u + 1;
  while (atomic_load(&self->stop) == 0) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    uint64_t pause_ns = self->wanted * (5 * PAUSE_NS + (random >> 33) % (10 * PAUSE_NS)) / 10;
    struct timespec pause = {(time_t)(pause_ns / 1000000000), (long)(pause_ns % 1000000000)};
    syscall(SYS_futex, &self->stop, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
    compute(3000);
  }
  return NULL;
}

static void stay_stopped(int signal) {
  (void)signal;
  uint32_t turn = atomic_load(&released);
  atomic_fetch_add(&stopped, 1);
  while (atomic_load(&released) == turn)
    syscall(SYS_futex, &released, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
}

struct peer_crowd *peer_crowd_start(uint32_t count) {
  struct sigaction stopping = {.sa_handler = stay_stopped, .sa_flags = SA_RESTART};
  struct peer_crowd *self = calloc(1, sizeof *self + count * sizeof(pthread_t));
  pthread_attr_t attributes;
  if (!self || sigaction(SIGUSR1, &stopping, NULL) != 0 || pthread_attr_init(&attributes) != 0) {
    free(self);
    return NULL;
  }
  self->wanted = count;
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  while (self->count < count && pthread_create(&self->threads[self->count], &attributes, sleep_mostly, self) == 0)
    self->count++;
  pthread_attr_destroy(&attributes);
  if (self->count < count) {
    peer_crowd_stop(self);
    return NULL;
  }
  while (atomic_load(&self->started) < count)
    sched_yield();
  return self;
}

void peer_crowd_stop(struct peer_crowd *crowd) {
  atomic_store(&crowd->stop, 1);
  syscall(SYS_futex, &crowd->stop, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
  for (uint32_t index = 0; index < crowd->count; index++)
    pthread_join(crowd->threads[index], NULL);
  free(crowd);
}

void peer_crowd_stop_all(struct peer_crowd *crowd, uint64_t walk_ns) {
  atomic_store(&stopped, 0);
  uint32_t all = crowd->count + bystander.runs;
  for (uint32_t index = 0; index < crowd->count; index++)
    pthread_kill(crowd->threads[index], SIGUSR1);
  if (bystander.runs)
    pthread_kill(bystander.thread, SIGUSR1);
  while (atomic_load(&stopped) < all)
    sched_yield();
  compute(walk_ns * all);
  atomic_fetch_add(&released, 1);
  syscall(SYS_futex, &released, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Returns the time that the calling thread was runnable without a CPU: the second number of its open schedstat FILE
 * (Documentation/scheduler/sched-stats.rst). */
static uint64_t starved_ns(int file) {
  char text[64];
  ssize_t length = pread(file, text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  const char *second = strchr(text, ' ');
  return second ? strtoull(second, NULL, 10) : 0;
}

static void *read_clock_in_loop(void *unused) {
  (void)unused;
  peer_accept_signals();
  int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  uint64_t starved = starved_ns(file);
  uint64_t last = now_ns();
  while (!atomic_load_explicit(&bystander.stop, memory_order_relaxed)) {
    uint64_t now = now_ns();
    uint64_t gap = now - last;
    if (gap > atomic_load_explicit(&bystander.worst_ns, memory_order_relaxed)) {
      uint64_t starved_now = starved_ns(file);
      uint64_t waited = starved_now - starved;
      starved = starved_now;
      gap = gap > waited ? gap - waited : 0;
      if (gap > atomic_load_explicit(&bystander.worst_ns, memory_order_relaxed))
        atomic_store_explicit(&bystander.worst_ns, gap, memory_order_relaxed);
      now = now_ns();
    }
    last = now;
  }
  close(file);
  return NULL;
}

bool peer_bystander_start(void) {
  atomic_store(&bystander.stop, false);
  atomic_store(&bystander.worst_ns, 0);
  bystander.runs = pthread_create(&bystander.thread, NULL, read_clock_in_loop, NULL) == 0;
  return bystander.runs;
}

void peer_bystander_stop(void) {
  atomic_store(&bystander.stop, true);
  pthread_join(bystander.thread, NULL);
  bystander.runs = false;
}

uint64_t peer_bystander_worst_ns(void) { return atomic_exchange(&bystander.worst_ns, 0); }
