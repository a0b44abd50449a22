/* What instructions do to the registers and to the stack, as far as finding frames needs to know. Internal to the observer.
 *
 * An instruction is taken apart into a few operations that are the same for every processor architecture: code_x86_64.c
 * and code_aarch64.c do that. */
#ifndef CODE_H
#define CODE_H

#include "observer_base.h"

#if defined(__aarch64__)
enum { CODE_REGISTERS = 32, CODE_SP = 31, CODE_FRAME_POINTER = 29 };
#else
enum { CODE_REGISTERS = 16, CODE_SP = 7, CODE_FRAME_POINTER = 6 }; /* numbered as DWARF does */
#endif

/* Bytes that are read to take an instruction apart, of which the longest one takes half, and operations that there are
 * in one at most. */
enum { CODE_BYTES = 32, CODE_OPERATIONS = 6 };

/* Stands for a register whose value does not matter, or is not known. */
enum { CODE_NO_REGISTER = -1 };

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
  CODE_JUMP_SLOT,     /* goes to the address that the word at TARGET holds */
  CODE_JUMP_ANYWHERE, /* goes to where a register says */
  CODE_RETURN,        /* returns: to where FROM says, or the word at the stack pointer, and drops AMOUNT bytes above it */
  CODE_END,           /* does not go on: a trap */
  CODE_PADDING,       /* does nothing */
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
  return kind != CODE_JUMP && kind != CODE_JUMP_SLOT && kind != CODE_JUMP_ANYWHERE && kind != CODE_RETURN &&
         kind != CODE_END;
}

/* Takes the instruction of CODE, CODE_BYTES bytes that stand at ADDRESS, apart into *COUNT operations, in this order.
 * Returns its length in bytes, or 0 when it is not known.
 * Async-signal-safe: yes. Threads: any. */
size_t observer_code_decode(const uint8_t *code, uint64_t address, struct code_operation *operations, int *count);

/* The registers that a call may change, as a set. Async-signal-safe: yes. Threads: any. */
uint64_t observer_code_volatile_registers(void);

/* The register that a call leaves the return address in; CODE_NO_REGISTER where it is on the stack.
 * Async-signal-safe: yes. Threads: any. */
int observer_code_return_register(void);

/* How far below a function's canonical frame address the stack pointer is when it is entered.
 * Async-signal-safe: yes. Threads: any. */
uint64_t observer_code_entry_bytes(void);

#endif
