/* The switch for the faults that tools/mutate has put into the sources: the active fault, and the reached faults. */
#ifndef FAULT_SWITCH_H
#define FAULT_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

enum { FAULT_SWITCH_MAX = 4096 };

/* The content of a file that every process of a run maps. It outlives killed processes. */
struct fault_switch {
  /* The number of the fault that is on; 0 for none. */
  int32_t on;
  /* By number, whether a process has reached the fault. */
  uint8_t reached[FAULT_SWITCH_MAX];
};

extern struct fault_switch *volatile fault_switch_state;

/* Whether the fault `number` is on. Async-signal-safe; any thread. */
static inline bool fault_is_on(int32_t number) {
  struct fault_switch *state = fault_switch_state;
  state->reached[number] = 1;
  return state->on == number;
}

#endif
