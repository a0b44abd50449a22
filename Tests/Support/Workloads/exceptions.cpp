#include "TestWorkloads.h"

#include <ctime>

namespace {

volatile uint64_t sink;

struct Thrown {
  int64_t number;
};

/* Has a destructor that runs when an exception passes. */
struct Guard {
  ~Guard() { sink = sink + 1; }
};

} // namespace

/* A function for every level: a missing level is visible in a stack. */
#define LEVEL(level, next)                                                                                             \
  extern "C" __attribute__((noinline)) void workload_throw_##level(int64_t number) {                                   \
    workload_throw_##next(number);                                                                                     \
    sink = sink + 1;                                                                                                   \
  }
#define LEVEL_WITH_DESTRUCTOR(level, next)                                                                             \
  extern "C" __attribute__((noinline)) void workload_throw_##level(int64_t number) {                                   \
    Guard guard;                                                                                                       \
    workload_throw_##next(number);                                                                                     \
    sink = sink + 1;                                                                                                   \
  }
#define LEVEL_THAT_CATCHES(level, next)                                                                                \
  extern "C" __attribute__((noinline)) void workload_throw_##level(int64_t number) {                                   \
    try {                                                                                                              \
      workload_throw_##next(number);                                                                                   \
    } catch (...) {                                                                                                    \
      sink = sink + 1;                                                                                                 \
      throw;                                                                                                           \
    }                                                                                                                  \
    sink = sink + 1;                                                                                                   \
  }

extern "C" __attribute__((noinline)) void workload_throw_0(int64_t number) { throw Thrown{number}; }
LEVEL(1, 0)
LEVEL_WITH_DESTRUCTOR(2, 1)
LEVEL(3, 2)
LEVEL(4, 3)
LEVEL_THAT_CATCHES(5, 4)
LEVEL_WITH_DESTRUCTOR(6, 5)
LEVEL_WITH_DESTRUCTOR(7, 6)
LEVEL(8, 7)
LEVEL(9, 8)
LEVEL(10, 9)
LEVEL_THAT_CATCHES(11, 10)
LEVEL(12, 11)
LEVEL(13, 12)
LEVEL_WITH_DESTRUCTOR(14, 13)
LEVEL(15, 14)
LEVEL(16, 15)

static uint64_t processor_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return uint64_t(time.tv_sec) * 1000000000 + uint64_t(time.tv_nsec);
}

extern "C" int64_t workload_throw_and_catch(uint64_t time_ns) {
  int64_t caught = 0;
  uint64_t began = processor_ns();
  for (int64_t number = 0; processor_ns() - began < time_ns; number++) {
    try {
      workload_throw_16(number);
      return -1;
    } catch (const Thrown &thrown) {
      if (thrown.number != number)
        return -1;
      caught++;
    }
  }
  return caught;
}
