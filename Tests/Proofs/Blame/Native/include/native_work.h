// Functions in C and C++ that each work until the time END, and the clocks of trials.
// No function is async-signal-safe. Threads: any.
#ifndef NATIVE_WORK_H
#define NATIVE_WORK_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/// CLOCK_MONOTONIC in nanoseconds: the clock of all times here.
static inline uint64_t native_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/// The calling thread's CPU time in nanoseconds.
uint64_t native_thread_time(void);

/// Set and return a thread-local deadline.
void native_set_deadline(uint64_t deadline);
uint64_t native_deadline(void);

/// qsort(3) with a custom comparator.
void rank_goods(uint64_t end);
/// memcpy(3) of large blocks.
void copy_pages(uint64_t end);
/// A function whose name begins like those of the Swift runtime.
void swift_parse_prices(uint64_t end);
/// poll(2) without events.
void poll_nothing(uint64_t end);

/// Templates.
void enter_multiply_matrices(uint64_t end);
/// Exceptions that are thrown and caught.
void enter_throw_refusals(uint64_t end);
/// std::sort with a lambda.
void enter_sort_shelves(uint64_t end);
/// std::map with keys that are strings.
void enter_index_titles(uint64_t end);
/// A custom lock class whose lock another thread holds.
void enter_wait_at_gate(uint64_t end);
/// Virtual functions.
void enter_draw_shapes(uint64_t end);

#ifdef __cplusplus
}
#endif

#endif
