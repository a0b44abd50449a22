/* The last stacks of stalls, in fixed memory, for notes about stalls that the recorder does not record
 * (observer_hang_notes.h).
 *
 * Samplers add stacks. A stall keeps its first stack and its most frequent other stacks, each with the number of
 * samples that showed it. */
#ifndef OBSERVER_LAST_STACKS_H
#define OBSERVER_LAST_STACKS_H

#include "observer_base.h"

#include "CUnwind.h"

/* For how many stalls, how many stacks of each, and how many frames of a stack. */
enum { OBSERVER_LAST_STALLS = 32, OBSERVER_LAST_STACKS = 4, OBSERVER_LAST_FRAMES = 62 };

struct observer_last_stack {
  uint32_t samples; /* 0: no stack */
  uint32_t count;   /* of frames, innermost first */
  uint64_t addresses[OBSERVER_LAST_FRAMES];
  uint8_t kinds[OBSERVER_LAST_FRAMES]; /* enum unwind_frame_kind */
  uint8_t end;                         /* enum unwind_end */
};

struct observer_last_stacks {
  struct observer_last_stack stacks[OBSERVER_LAST_STACKS];
};

/* Makes the memory resident. Async-signal-safe: yes. Threads: one that starts the watchdog. */
void observer_last_stacks_start(void);

/* Adds STACK to those of the work item ITEM in SLOT. Does nothing while another thread uses the same place, or when a
 * stall in another slot has it. Async-signal-safe: yes. Threads: samplers. */
CLINUX_NO_LOCKS void observer_last_stacks_add(uint32_t slot, uint64_t item, const struct unwind_stack *stack);

/* Fills STACKS with those of ITEM in SLOT. Returns false when there are none, or a sampler adds one just now.
 * Async-signal-safe: yes. Threads: the one that notes hangs. */
bool observer_last_stacks_read(uint32_t slot, uint64_t item, struct observer_last_stacks *stacks);

#endif
