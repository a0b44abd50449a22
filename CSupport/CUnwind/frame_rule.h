#ifndef FRAME_RULE_H
#define FRAME_RULE_H

#include "walk.h"

enum { RULE_REGISTERS_MAX = 18 };

/* The location of a caller's register. CFA is the canonical frame address. */
enum place_kind {
  PLACE_NONE = 0,      /* the register keeps its value */
  PLACE_LOST,          /* the value is unknown */
  PLACE_AT_OFFSET,     /* in memory, at an offset from CFA */
  PLACE_IS_OFFSET,     /* the value is an offset from CFA */
  PLACE_IN_REGISTER,   /* in another register of the frame */
  PLACE_AT_EXPRESSION, /* in memory, at the address that an expression gives */
  PLACE_IS_EXPRESSION, /* the value is the result of an expression */
};

struct register_rule {
  uint8_t number;
  uint8_t kind;  /* enum place_kind */
  int32_t value; /* an offset, a register, or the distance of an expression from the rule's description */
};

struct frame_rule {
  uint64_t description;     /* address of the table entry */
  struct register_rule cfa; /* PLACE_IS_OFFSET from register NUMBER, or PLACE_IS_EXPRESSION */
  uint8_t count;
  bool is_outermost;    /* the return address is undefined, so the frame has no caller */
  bool is_signal_frame; /* the caller was interrupted by a signal */
  struct register_rule registers[RULE_REGISTERS_MAX];
};

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_rules_bytes(void);

/* Returns the rule for the code at ADDRESS, valid until the next call; NULL if no table describes the code, or its row
 * cannot be read. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
const struct frame_rule *cunwind_rule_at(struct unwinder *unwinder, uint64_t address);

/* Clears the cache. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_rules_forget(struct unwinder *unwinder);

#endif
