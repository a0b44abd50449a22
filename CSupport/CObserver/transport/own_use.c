#include "transport/observer_own_use.h"

#include "clinux_clock.h"
#include "clinux_task.h"

static _Atomic int32_t tids[OBSERVER_OWN_THREADS_MAX]; /* 0: free */
static _Atomic int32_t places_used;
static _Atomic uint64_t ended_ns;

int observer_own_use_enter(void) {
  int32_t self = clinux_task_self();
  for (int place = 0; place < OBSERVER_OWN_THREADS_MAX; place++) {
    int32_t none = 0;
    if (!atomic_compare_exchange_strong_explicit(&tids[place], &none, self, memory_order_relaxed, memory_order_relaxed))
      continue;
    int32_t used = atomic_load_explicit(&places_used, memory_order_relaxed);
    while (used <= place && !atomic_compare_exchange_weak_explicit(&places_used, &used, place + 1, memory_order_relaxed,
                                                                   memory_order_relaxed))
      ;
    return place;
  }
  return -1;
}

void observer_own_use_leave(int place) {
  if (place < 0)
    return;
  atomic_store_explicit(&tids[place], 0, memory_order_relaxed);
  atomic_fetch_add_explicit(&ended_ns, clinux_clock_thread_cpu_ns(clinux_task_self()), memory_order_relaxed);
}

void observer_own_use_start_over(void) {
  for (int place = 0; place < OBSERVER_OWN_THREADS_MAX; place++)
    atomic_store_explicit(&tids[place], 0, memory_order_relaxed);
  atomic_store_explicit(&ended_ns, 0, memory_order_relaxed);
}

uint64_t observer_own_use_ns(void) {
  uint64_t sum = atomic_load_explicit(&ended_ns, memory_order_relaxed);
  int32_t used = atomic_load_explicit(&places_used, memory_order_relaxed);
  for (int32_t place = 0; place < used; place++) {
    int32_t tid = atomic_load_explicit(&tids[place], memory_order_relaxed);
    if (tid != 0)
      sum += clinux_clock_thread_cpu_ns(tid);
  }
  return sum;
}
