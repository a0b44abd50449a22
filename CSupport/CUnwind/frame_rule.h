/* A simple rule: a row of an unwind table in which the canonical frame address is a register plus an offset, and
 * registers are saved at offsets from that address. Most rows have this form; libunwind handles the others. Internal to
 * CUnwind. */
#ifndef FRAME_RULE_H
#define FRAME_RULE_H

#include "walk.h"

/* Maximum number of saved registers in a simple rule, and the unit of their offsets. */
enum { RULE_SAVED_MAX = 8, RULE_UNIT = 8 };

struct frame_rule {
  int32_t cfa_offset;
  uint32_t saved;                  /* one bit per saved register */
  int16_t offsets[RULE_SAVED_MAX]; /* offsets from the canonical frame address, in order of register numbers */
  uint8_t cfa_register;
  bool is_outermost; /* the return address is undefined, so the frame has no caller */
};

/* Reads the rule for the code at ADDRESS. Returns false if its row is not a simple rule. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_read_frame_rule(struct unwinder *unwinder, uint64_t address, struct frame_rule *rule);

#endif
