/* The effects of instructions on registers and the stack, in the detail that unwinding and symbolization need.
 *
 * TO and FROM are registers, or UNWIND_NO_REGISTER for a value that is unknown or irrelevant. */
#ifndef UNWIND_CODE_H
#define UNWIND_CODE_H

#include <stdbool.h>
#include <stdint.h>

enum { CODE_REGISTERS = 32 };

enum { CODE_BYTES = 32, CODE_OPERATIONS = 6 };

enum code_kind {
  CODE_SET, /* TO becomes FROM + AMOUNT; unknown without FROM */
  CODE_LOWER,
  CODE_ALIGN,       /* TO becomes TO & AMOUNT */
  CODE_SHIFT_RIGHT, /* TO becomes TO >> AMOUNT */
  CODE_SHIFT_LEFT,  /* TO becomes TO << AMOUNT */
  CODE_LOAD,
  CODE_STORE,
  CODE_CLOBBER,
  CODE_LOAD_FIXED,
  CODE_SET_FIXED,
  CODE_SET_NUMBER,
  CODE_CALL,
  CODE_CALL_REGISTER, /* calls FROM */
  CODE_CALL_MEMORY,
  CODE_CALL_FIXED,
  CODE_SYSTEM_CALL,
  CODE_BRANCH, /* jumps to TARGET or continues */
  CODE_JUMP,   /* jumps to TARGET */
  CODE_JUMP_GOT,
  CODE_JUMP_ANYWHERE,
  CODE_RETURN,
  CODE_END,     /* does not continue: a trap */
  CODE_PADDING, /* has no effect */
};

struct code_operation {
  enum code_kind kind;
  int to, from;
  int64_t amount;
  uint64_t target;
};

/* Whether KIND is a call. Async-signal-safe: yes. Threads: any. */
static inline bool code_is_call(enum code_kind kind) { return kind >= CODE_CALL && kind <= CODE_CALL_FIXED; }

/* Whether execution can continue at the instruction after one of KIND. Async-signal-safe: yes. Threads: any. */
static inline bool code_goes_on(enum code_kind kind) {
  return kind != CODE_JUMP && kind != CODE_JUMP_GOT && kind != CODE_JUMP_ANYWHERE && kind != CODE_RETURN &&
         kind != CODE_END;
}

#endif
