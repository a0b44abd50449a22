/* Where a frame's caller is, as the unwind table says it in one row: the canonical frame address is at a distance from
 * a register, and registers are saved at distances from that. Most rows say just that; what says more has no simple
 * rule, and is left to libunwind. Internal to CUnwind. */
#ifndef FRAME_RULE_H
#define FRAME_RULE_H

#include "walk.h"

/* Registers that a simple rule finds saved, at most; and what offsets are multiples of. */
enum { RULE_SAVED_MAX = 8, RULE_UNIT = 8 };

struct frame_rule {
  int32_t cfa_offset;
  uint32_t saved;                  /* a bit for each register that is saved */
  int16_t offsets[RULE_SAVED_MAX]; /* where they are from the frame address on, in the order of their numbers */
  uint8_t cfa_register;
  bool is_outermost; /* the return address is undefined: there is no caller */
};

/* Reads the rule for the code at ADDRESS. Returns false when there is no simple one.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_read_frame_rule(struct unwinder *unwinder, uint64_t address, struct frame_rule *rule);

#endif
