#ifndef FRAME_RULE_H
#define FRAME_RULE_H

#include "walk.h"

enum { RULE_REGISTERS_MAX = 18 };

enum place_kind {
  PLACE_NONE = 0, /* the register keeps its value */
  PLACE_LOST,     /* the value is unknown */
  PLACE_AT_OFFSET,
  PLACE_IS_OFFSET,
  PLACE_IN_REGISTER,
  PLACE_AT_EXPRESSION,
  PLACE_IS_EXPRESSION,
};

struct register_rule {
  uint8_t number;
  uint8_t kind;
  int32_t value;
};

struct frame_rule {
  uint64_t description; /* address of the table entry */
  struct register_rule cfa;
  uint8_t count;
  bool is_outermost;
  bool is_signal_frame;
  struct register_rule registers[RULE_REGISTERS_MAX];
};

/* Size of this part of an unwinder, in bytes. Async-signal-safe: yes. Threads: any. */
size_t cunwind_rules_bytes(void);

/* Returns the rule for the code at ADDRESS, which is valid until the next call; NULL if no table describes the code, or
 * its row cannot be read. Rules are cached, so a step is a few reads of the copied stack. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
const struct frame_rule *cunwind_rule_at(struct unwinder *unwinder, uint64_t address);

/* Clears the cache, because modules might have been replaced. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_rules_forget(struct unwinder *unwinder);

#endif
