/* What a caller had in its registers when it made a call, as far as the frames inside of it still tell: in what they have
 * saved, or in arguments that they have kept. Internal to the observer. */
#ifndef CALLER_H
#define CALLER_H

#include "frame_facts.h"

#if defined(__x86_64__) || defined(__aarch64__)

struct caller_registers {
  uint64_t values[CODE_REGISTERS];
  uint64_t known; /* a bit for each register */
};

/* Finds the registers that the frame of CURSOR had when it made the call that WALK's stack shows it in. Clears
 * *INTERRUPTED when the frame is the innermost one and in a system call, which is a call, too.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
void observer_caller_registers(struct walk *walk, unw_cursor_t *cursor, bool *interrupted, struct caller_registers *found);

/* Adds KNOWN and the stack pointer SP to VALUES, which are about the frame of FACTS.
 * Async-signal-safe: yes. Threads: any. */
void observer_caller_learn(const struct caller_registers *known, const struct frame_facts *facts, uint64_t sp,
                           struct fact_values *values);

#endif
#endif
