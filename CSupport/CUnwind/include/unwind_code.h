/* What instructions do to the registers and to the stack, as far as finding frames needs to know.
 *
 * An instruction is decoded into a few operations that are the same for every processor architecture: x86_64/decode.c
 * and aarch64/decode.c do that. TO and FROM are registers, or UNWIND_NO_REGISTER: a value that does not matter, or is
 * not known. */
#ifndef UNWIND_CODE_H
#define UNWIND_CODE_H

#include <stdbool.h>
#include <stdint.h>

/* General registers that an architecture has at most. */
enum { CODE_REGISTERS = 32 };

/* Bytes that are read to decode an instruction, of which the longest one takes half, and operations that there are
 * in one at most. */
enum { CODE_BYTES = 32, CODE_OPERATIONS = 6 };

enum code_kind {
  CODE_SET,           /* TO becomes FROM + AMOUNT; unknown without FROM */
  CODE_LOWER,         /* TO becomes less by an unknown amount */
  CODE_ALIGN,         /* TO becomes TO & AMOUNT */
  CODE_SHIFT_RIGHT,   /* TO becomes TO >> AMOUNT */
  CODE_SHIFT_LEFT,    /* TO becomes TO << AMOUNT */
  CODE_LOAD,          /* TO becomes the word at FROM + AMOUNT */
  CODE_STORE,         /* the word at TO + AMOUNT becomes FROM; unknown without FROM */
  CODE_CLOBBER,       /* the registers of the set AMOUNT become unknown */
  CODE_LOAD_FIXED,    /* TO becomes the word at TARGET */
  CODE_SET_FIXED,     /* TO becomes TARGET */
  CODE_CALL,          /* calls TARGET; 0: what a register or memory says, which is not known */
  CODE_CALL_REGISTER, /* calls FROM */
  CODE_CALL_MEMORY,   /* calls what the word at FROM + AMOUNT says */
  CODE_CALL_FIXED,    /* calls what the word at TARGET says */
  CODE_SYSTEM_CALL,
  CODE_BRANCH,        /* goes to TARGET, or on */
  CODE_JUMP,          /* goes to TARGET */
  CODE_JUMP_GOT,      /* goes to the address that the word at TARGET holds */
  CODE_JUMP_ANYWHERE, /* goes to where a register says */
  CODE_RETURN,  /* returns: to where FROM says, or the word at the stack pointer, and drops AMOUNT bytes above it */
  CODE_END,     /* does not go on: a trap */
  CODE_PADDING, /* does nothing */
};

struct code_operation {
  enum code_kind kind;
  int to, from;
  int64_t amount;
  uint64_t target;
};

/* Whether KIND is a call. Async-signal-safe: yes. Threads: any. */
static inline bool code_is_call(enum code_kind kind) { return kind >= CODE_CALL && kind <= CODE_CALL_FIXED; }

/* Whether the instruction behind one of KIND may be gone on to from it. Async-signal-safe: yes. Threads: any. */
static inline bool code_goes_on(enum code_kind kind) {
  return kind != CODE_JUMP && kind != CODE_JUMP_GOT && kind != CODE_JUMP_ANYWHERE && kind != CODE_RETURN &&
         kind != CODE_END;
}

#endif
