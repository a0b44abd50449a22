/* Going through a function's code along all its ways. Internal to the observer. */
#ifndef EXPLORATION_H
#define EXPLORATION_H

#include "frame_facts.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* The first base that is no register at the entry. */
enum { FIRST_MADE_BASE = 1 + CODE_REGISTERS };

/* How a function leaves its code by jumps. */
struct function_jumps {
  bool anywhere;   /* its frame gone, to where only a register knows: a call of an unknown function in its place */
  bool with_frame; /* to the address that was asked for, its frame being there */
};

/* Finds how the function of RANGE jumps, to TARGET above all. Returns false when it is too large or not understood.
 * Async-signal-safe: yes. Threads: the monitor. */
bool observer_function_jumps(struct code_range range, uint64_t target, struct function_jumps *jumps);

/* Whether the function of RANGE, once a call has returned to FROM in it or in OTHER, to which it may jump, may come to the
 * call that returns to TO; and with GROWS, whether it may make room on the stack, of a size that its code does not tell,
 * before it ends. True in case of doubt.
 * Async-signal-safe: yes. Threads: the monitor. */
bool observer_function_comes(struct code_range range, struct code_range other, uint64_t from, uint64_t to, bool *grows);

/* Forgets what was found out: the code may have been replaced.
 * Async-signal-safe: yes. Threads: the monitor. */
void observer_explorations_forget(void);

/* One function that is gone through. */
struct exploration {
  struct code_range range, cold;
  uint64_t pc;
  bool interrupted, loads;
  int instructions;
  bool failed;
  struct fact_state at_calls, at_jumps; /* what holds at all calls, and at all jumps to unknown places of the function */
  struct frame_facts *facts;
  uint64_t target; /* jumps to there are of interest, */
  struct function_jumps jumps;
};

/* Goes through the function from its entry. Notes in EXPLORATION whether that failed, and in its facts what holds at its pc.
 * Async-signal-safe: yes. Threads: the monitor. */
void observer_explore(struct exploration *exploration);

/* Does to STATE what OPERATION, of the instruction at ADDRESS, does.
 * Async-signal-safe: yes. Threads: the monitor. */
void observer_state_apply(struct exploration *exploration, struct fact_state *state, uint64_t address,
                          const struct code_operation *operation);

/* Keeps in INTO, which belongs to ADDRESS, what STATE says as well. Returns whether INTO changed.
 * Async-signal-safe: yes. Threads: the monitor. */
bool observer_state_join(struct exploration *exploration, struct fact_state *into, const struct fact_state *state,
                         uint64_t address);

#endif
#endif
