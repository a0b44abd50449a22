/* Stacks of ongoing stalls, in fixed memory, for observer_hang_notes.h. Each stall keeps its first stack and its most
 * frequent other stacks, with their numbers of samples. */
#ifndef OBSERVER_LAST_STACKS_H
#define OBSERVER_LAST_STACKS_H

#include "base/observer_base.h"

#include "CUnwind.h"

enum { OBSERVER_LAST_STALLS = 32, OBSERVER_LAST_STACKS = 4, OBSERVER_LAST_FRAMES = 62 };

struct observer_last_stack {
  uint32_t samples; /* 0: no stack */
  uint32_t count;   /* innermost first */
  uint64_t addresses[OBSERVER_LAST_FRAMES];
  uint8_t kinds[OBSERVER_LAST_FRAMES]; /* enum unwind_frame_kind */
  uint8_t end;                         /* enum unwind_end */
};

struct observer_last_stacks {
  struct observer_last_stack stacks[OBSERVER_LAST_STACKS];
};

/* Clears all entries and makes them resident. Async-signal-safe: yes. Threads: one that starts the watchdog. */
void observer_last_stacks_start(void);

/* Adds STACK to ITEM in SLOT, unless the entry is in use. Async-signal-safe: yes. Threads: samplers. */
CLINUX_NO_LOCKS void observer_last_stacks_add(uint32_t slot, uint64_t item, const struct unwind_stack *stack);

/* Sets STACKS to the stacks of ITEM in SLOT. Returns false if ITEM has no entry, or a stack is being added.
 * Async-signal-safe: yes. Threads: the one that notes hangs. */
bool observer_last_stacks_read(uint32_t slot, uint64_t item, struct observer_last_stacks *stacks);

#endif
