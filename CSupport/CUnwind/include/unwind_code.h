/* The effects of instructions on registers and the stack, in the detail that unwinding and symbolization need.
 *
 * TO and FROM are registers, or UNWIND_NO_REGISTER for a value that is unknown or irrelevant. */
#ifndef UNWIND_CODE_H
#define UNWIND_CODE_H

#include <stdbool.h>
#include <stdint.h>

enum { CODE_REGISTERS = 32 };

/* Number of bytes read to decode an instruction (twice the longest instruction), and maximum number of operations of an
 * instruction. */
enum { CODE_BYTES = 32, CODE_OPERATIONS = 6 };

enum code_kind {
  CODE_SET,           /* TO becomes FROM + AMOUNT; unknown without FROM */
  CODE_LOWER,         /* TO decreases by an unknown amount */
  CODE_ALIGN,         /* TO becomes TO & AMOUNT */
  CODE_SHIFT_RIGHT,   /* TO becomes TO >> AMOUNT */
  CODE_SHIFT_LEFT,    /* TO becomes TO << AMOUNT */
  CODE_LOAD,          /* TO becomes the word at FROM + AMOUNT */
  CODE_STORE,         /* the word at TO + AMOUNT becomes FROM; unknown without FROM */
  CODE_CLOBBER,       /* the registers of the set AMOUNT become unknown */
  CODE_LOAD_FIXED,    /* TO becomes the word at TARGET */
  CODE_SET_FIXED,     /* TO becomes TARGET */
  CODE_SET_NUMBER,    /* TO becomes the number AMOUNT, which unwinding does not need; FROM is UNWIND_NO_REGISTER */
  CODE_CALL,          /* calls TARGET; 0: an unknown address from a register or memory */
  CODE_CALL_REGISTER, /* calls FROM */
  CODE_CALL_MEMORY,   /* calls the address stored at FROM + AMOUNT */
  CODE_CALL_FIXED,    /* calls the address stored at TARGET */
  CODE_SYSTEM_CALL,
  CODE_BRANCH,        /* jumps to TARGET or continues */
  CODE_JUMP,          /* jumps to TARGET */
  CODE_JUMP_GOT,      /* jumps to the address stored at TARGET */
  CODE_JUMP_ANYWHERE, /* jumps to the address in a register */
  CODE_RETURN,        /* returns to the address in FROM or at the stack pointer, and pops AMOUNT more bytes */
  CODE_END,           /* ends execution: a trap */
  CODE_PADDING,       /* has no effect */
};

struct code_operation {
  enum code_kind kind;
  int to, from;
  int64_t amount;
  uint64_t target;
};

/* Async-signal-safe: yes. Threads: any. */
static inline bool code_is_call(enum code_kind kind) { return kind >= CODE_CALL && kind <= CODE_CALL_FIXED; }

/* Whether execution can continue at the next instruction after an operation of KIND. Async-signal-safe: yes. Threads:
 * any. */
static inline bool code_goes_on(enum code_kind kind) {
  return kind != CODE_JUMP && kind != CODE_JUMP_GOT && kind != CODE_JUMP_ANYWHERE && kind != CODE_RETURN &&
         kind != CODE_END;
}

#endif
