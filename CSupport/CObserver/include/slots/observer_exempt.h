/* Scopes whose time does not count, and their total time. Scopes can be nested, and can begin and end on any thread.
 *
 * The sum is one word: the total time of closed scopes. Opening the first scope subtracts its begin time: while a scope
 * is open, the word is negative, and the total is the word plus the current time. The word is invalid while one thread
 * opens the first scope and another thread closes the last one; a count of threads about to change the word detects
 * this. */
#ifndef OBSERVER_EXEMPT_H
#define OBSERVER_EXEMPT_H

#include "base/observer_base.h"
#include "clinux_clock.h"

struct observer_exemption {
  _Atomic uint64_t depth;
  _Atomic uint64_t sum_ns;
};

#define OBSERVER_EXEMPT_UNKNOWN INT64_MIN

/* The parts of a depth, from the top: owner, 32 bits; threads about to add to the sum, 12 bits; open scopes. */
#define OBSERVER_EXEMPT_SETTLING (UINT64_C(1) << 20)
#define OBSERVER_EXEMPT_SETTLING_MASK (UINT64_C(0xfff) << 20)
#define OBSERVER_EXEMPT_DEPTH_MASK (OBSERVER_EXEMPT_SETTLING - 1)
enum { OBSERVER_EXEMPT_OWNER_SHIFT = 32 };

/* Opens a scope of OWNER; no effect if EXEMPTION has another owner. Async-signal-safe: yes. Threads: any. */
static inline void observer_exemption_begin(struct observer_exemption *exemption, uint32_t owner) {
  uint64_t depth = atomic_load_explicit(&exemption->depth, memory_order_relaxed), next, now = 0;
  do {
    if (depth >> OBSERVER_EXEMPT_OWNER_SHIFT != owner)
      return;
    next = depth + 1;
    if ((depth & OBSERVER_EXEMPT_DEPTH_MASK) == 0) {
      /* Read before the scope opens: scopes that other threads open meanwhile count twice, which only reduces measured
       * ages. */
      now = clinux_clock_ns();
      next += OBSERVER_EXEMPT_SETTLING;
    }
  } while (!atomic_compare_exchange_weak_explicit(&exemption->depth, &depth, next, memory_order_acquire,
                                                  memory_order_relaxed));
  if ((depth & OBSERVER_EXEMPT_DEPTH_MASK) != 0)
    return;
  atomic_fetch_sub_explicit(&exemption->sum_ns, now, memory_order_release);
  atomic_fetch_sub_explicit(&exemption->depth, OBSERVER_EXEMPT_SETTLING, memory_order_release);
}

/* Closes a scope of OWNER, if one is open. Returns whether no scope is open now. Async-signal-safe: yes. Threads:
 * any. */
static inline bool observer_exemption_end(struct observer_exemption *exemption, uint32_t owner) {
  uint64_t depth = atomic_load_explicit(&exemption->depth, memory_order_relaxed), next;
  do {
    if (depth >> OBSERVER_EXEMPT_OWNER_SHIFT != owner || (depth & OBSERVER_EXEMPT_DEPTH_MASK) == 0)
      return false;
    next = depth - 1 + ((depth & OBSERVER_EXEMPT_DEPTH_MASK) == 1 ? OBSERVER_EXEMPT_SETTLING : 0);
  } while (!atomic_compare_exchange_weak_explicit(&exemption->depth, &depth, next, memory_order_acquire,
                                                  memory_order_relaxed));
  if ((depth & OBSERVER_EXEMPT_DEPTH_MASK) != 1)
    return false;
  atomic_fetch_add_explicit(&exemption->sum_ns, clinux_clock_ns(), memory_order_release);
  atomic_fetch_sub_explicit(&exemption->depth, OBSERVER_EXEMPT_SETTLING, memory_order_release);
  return true;
}

/* Returns the sum, or OBSERVER_EXEMPT_UNKNOWN. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS int64_t observer_exemption_sum(const struct observer_exemption *exemption) {
  uint64_t sum = atomic_load_explicit(&exemption->sum_ns, memory_order_acquire);
  uint64_t depth = atomic_load_explicit(&exemption->depth, memory_order_acquire);
  bool is_settled = (depth & OBSERVER_EXEMPT_SETTLING_MASK) == 0 &&
                    atomic_load_explicit(&exemption->sum_ns, memory_order_relaxed) == sum;
  return is_settled ? (int64_t)sum : OBSERVER_EXEMPT_UNKNOWN;
}

/* Removes EXEMPTION's owner. Returns false while a thread is about to add to the sum. Async-signal-safe: yes. Threads:
 * one at a time. */
static inline bool observer_exemption_retire(struct observer_exemption *exemption) {
  uint64_t depth = atomic_load_explicit(&exemption->depth, memory_order_relaxed);
  do {
    if ((depth & OBSERVER_EXEMPT_SETTLING_MASK) != 0)
      return false;
  } while (
      !atomic_compare_exchange_weak_explicit(&exemption->depth, &depth, 0, memory_order_acquire, memory_order_relaxed));
  atomic_store_explicit(&exemption->sum_ns, 0, memory_order_relaxed);
  return true;
}

/* Sets the owner of the retired EXEMPTION. Async-signal-safe: yes. Threads: one at a time. */
static inline void observer_exemption_configure(struct observer_exemption *exemption, uint32_t owner) {
  atomic_store_explicit(&exemption->depth, (uint64_t)owner << OBSERVER_EXEMPT_OWNER_SHIFT, memory_order_release);
}

#endif
