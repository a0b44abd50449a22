/* Which of the faults that tools/mutate has put into the sources is on, and which have been reached. */
#ifndef FAULT_SWITCH_H
#define FAULT_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

enum { FAULT_SWITCH_MAX = 4096 };

/* What a file is mapped as, by every process of a run, however it was started: its bytes outlive a kill. */
struct fault_switch {
  /* The number of the fault that is on; 0 for none. */
  int32_t on;
  /* By number, whether a process has come to the place of the fault. */
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
