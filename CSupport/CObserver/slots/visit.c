#include "slots/observer_visit.h"

#include "clinux_clock.h"

static struct observer_thread visitors[OBSERVER_VISITS_MAX];

struct observer_thread *observer_visit_begin(int32_t tid) {
  for (int index = 0; index < OBSERVER_VISITS_MAX; index++) {
    struct observer_thread *visitor = &visitors[index];
    uint32_t state = OBSERVER_THREAD_FREE;
    if (!atomic_compare_exchange_strong_explicit(&visitor->state, &state, OBSERVER_THREAD_HELD, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    /* Copies the registered entry, which might be reused before the visit ends. */
    const struct observer_thread *registered = observer_thread_find(tid);
    uint64_t low = registered ? atomic_load_explicit(&registered->stack_low, memory_order_relaxed) : 0;
    uint64_t high = registered ? atomic_load_explicit(&registered->stack_high, memory_order_relaxed) : 0;
    uint32_t room = registered ? atomic_load_explicit(&registered->room, memory_order_relaxed) : OBSERVER_ROOM_UNKNOWN;
    uint64_t kept_out = registered ? atomic_load_explicit(&registered->kept_out_until_ns, memory_order_relaxed) : 0;
    if (registered && observer_thread_id(registered) != tid) {
      low = high = kept_out = 0;
      room = OBSERVER_ROOM_UNKNOWN;
    }
    atomic_store_explicit(&visitor->tid, tid, memory_order_relaxed);
    atomic_store_explicit(&visitor->kept_out_until_ns, kept_out, memory_order_relaxed);
    atomic_store_explicit(&visitor->let_in_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&visitor->room, room, memory_order_relaxed);
    atomic_store_explicit(&visitor->stack_low, low, memory_order_relaxed);
    atomic_store_explicit(&visitor->stack_high, high, memory_order_relaxed);
    atomic_store_explicit(&visitor->registered_ns, clinux_clock_boot_ns(), memory_order_relaxed);
    atomic_store_explicit(&visitor->self_address, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&visitor->use, 1, memory_order_relaxed);
    atomic_store_explicit(&visitor->state, OBSERVER_THREAD_LIVE, memory_order_release);
    return visitor;
  }
  return NULL;
}

void observer_visit_end(struct observer_thread *thread) {
  /* The last holder frees the entry. */
  if (thread >= visitors && thread < visitors + OBSERVER_VISITS_MAX)
    atomic_fetch_and_explicit(&thread->state, ~(uint32_t)OBSERVER_THREAD_LIVE, memory_order_acq_rel);
}

uint32_t observer_visits_under_way(void) {
  uint32_t count = 0;
  for (int index = 0; index < OBSERVER_VISITS_MAX; index++)
    count += atomic_load_explicit(&visitors[index].state, memory_order_relaxed) != OBSERVER_THREAD_FREE;
  return count;
}

void observer_visit_start_over(void) {
  for (int index = 0; index < OBSERVER_VISITS_MAX; index++)
    atomic_store_explicit(&visitors[index].state, OBSERVER_THREAD_FREE, memory_order_relaxed);
}
