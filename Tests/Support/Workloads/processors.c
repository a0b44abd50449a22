#define _GNU_SOURCE
#include "TestWorkloads.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define KEPT __attribute__((noinline, visibility("default"), used))

static volatile uint64_t sink;

struct workload_crowd {
  cpu_set_t processor;
  int count;
  struct workload_thread *threads[];
};

static void pin(const cpu_set_t *processor) { pthread_setaffinity_np(pthread_self(), sizeof *processor, processor); }

static void compute_on(void *processor, const volatile int *stop) {
  pin(processor);
  workload_spin(UINT64_MAX, stop);
}

struct workload_crowd *workload_crowd_start(int count) {
  struct workload_crowd *crowd = calloc(1, sizeof *crowd + (size_t)count * sizeof(struct workload_thread *));
  crowd->count = count;
  CPU_SET(sched_getcpu(), &crowd->processor);
  pin(&crowd->processor);
  for (int index = 0; index < count; index++)
    crowd->threads[index] = workload_thread_start(compute_on, &crowd->processor);
  return crowd;
}

void workload_crowd_stop(struct workload_crowd *crowd) {
  for (int index = 0; index < crowd->count; index++)
    workload_thread_stop(crowd->threads[index]);
  free(crowd);
}

KEPT void workload_sleep(uint64_t ns) {
  struct timespec left = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR)
    continue;
  sink++;
}

KEPT void workload_poll(uint64_t ns) {
  poll(NULL, 0, (int)(ns / 1000000));
  sink++;
}
