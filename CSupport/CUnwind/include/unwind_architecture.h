/* What unwinding needs to know of a processor architecture. Which one is used follows from what is unwound, not from
 * where the code runs: every architecture is compiled everywhere. */
#ifndef UNWIND_ARCHITECTURE_H
#define UNWIND_ARCHITECTURE_H

#include "unwind_registers.h"

#include <string.h>

/* Bytes of code that are looked at before a return address, at the beginning of a function or PLT stub, and where a
 * signal handler returns to. */
enum {
  UNWIND_CALL_BYTES = 8,
  UNWIND_PROLOGUE_BYTES = 48,
  UNWIND_SIGNAL_RETURN_BYTES = 9,
};

/* No register has this number. */
enum { UNWIND_NO_REGISTER = -1 };

/* What stands before a return address. */
enum unwind_call_kind {
  UNWIND_CALL_NONE = 0,     /* no call instruction: the address is no return address */
  UNWIND_CALL_DIRECT = 1,   /* a call of a known address */
  UNWIND_CALL_INDIRECT = 2, /* a call through a register or memory */
};

struct code_operation;

/* Every function is async-signal-safe, and may be called by any thread. */
struct unwind_architecture {
  const char *name; /* as uname(2) has it */

  int registers;         /* how many there are in struct unwind_registers */
  int general_registers; /* those with lower numbers are named by instructions */
  int sp, pc, frame_pointer;
  int result;              /* a function's result is returned in it, and exceptions are passed to their handler */
  int link;                /* a call leaves the return address in it; UNWIND_NO_REGISTER where that is on the stack */
  int return_column;       /* the number that unwind tables give the return address; UNWIND_NO_REGISTER where their rows
                              are left to libunwind (frame_rule.h) */
  int arguments[6];        /* these pass the arguments of system calls */
  uint64_t call_clobbered; /* a call may change these: a bit for each */

  uint64_t entry_bytes; /* how far below a function's canonical frame address the stack pointer is at its entry */
  uint64_t red_zone;    /* bytes below the stack pointer that belong to the function, and that signals spare */
  uint64_t function_alignment; /* of where functions begin */
  uint64_t instruction_bytes;  /* length of an instruction; 0 where each has its own */
  uint64_t code_mask;          /* bits of an address of code; the others hold its pointer authentication code */

  /* What kind of call ends at RETURN_ADDRESS, from the UNWIND_CALL_BYTES bytes of CODE before it. Sets *TARGET for a
   * direct call. */
  enum unwind_call_kind (*call_before)(const uint8_t *code, uint64_t return_address, uint64_t *target);

  /* Whether the call that ends at RETURN_ADDRESS, from the UNWIND_CALL_BYTES bytes of CODE before it, is one of what
   * the global offset table has at *ENTRY. */
  bool (*calls_got_entry)(const uint8_t *code, uint64_t return_address, uint64_t *entry);

  /* Whether the UNWIND_PROLOGUE_BYTES bytes of CODE at ADDRESS are a PLT stub, which jumps to what the global offset
   * table has at *ENTRY. */
  bool (*is_plt_stub)(const uint8_t *code, uint64_t address, uint64_t *entry);

  /* Whether the UNWIND_SIGNAL_RETURN_BYTES bytes of CODE are what a signal handler returns to: the system call that
   * resumes what the signal interrupted. */
  bool (*is_signal_return)(const uint8_t *code);

  /* How far above the stack pointer the frame pointer is while a function calls others, from the
   * UNWIND_PROLOGUE_BYTES bytes of CODE at its beginning. Returns false when they do not tell. */
  bool (*frame_bytes)(const uint8_t *code, uint64_t *bytes);

  /* Whether the UNWIND_PROLOGUE_BYTES bytes of CODE begin a function that keeps a frame pointer. */
  bool (*begins_frame)(const uint8_t *code);

  /* Whether a function ends in the LENGTH bytes of CODE, and another one follows; eight more bytes can be read. True in
   * case of doubt. */
  bool (*function_ends)(const uint8_t *code, size_t length);

  /* How many of the bytes of CODE, of which 16 can be read, are one piece of padding between functions; 0 if none. */
  size_t (*padding)(const uint8_t *code);

  /* Decodes the instruction of CODE, CODE_BYTES bytes that stand at ADDRESS, into *COUNT operations (unwind_code.h).
   * Returns its length in bytes, or 0 when it is not known. */
  size_t (*decode)(const uint8_t *code, uint64_t address, struct code_operation *operations, int *count);
};

extern const struct unwind_architecture cunwind_x86_64;
extern const struct unwind_architecture cunwind_aarch64;

/* The architecture that uname(2) calls NAME; NULL where it is none of the above. Async-signal-safe: yes. Threads: any.
 */
static inline const struct unwind_architecture *cunwind_architecture(const char *name) {
  return strcmp(name, cunwind_x86_64.name) == 0    ? &cunwind_x86_64
         : strcmp(name, cunwind_aarch64.name) == 0 ? &cunwind_aarch64
                                                   : NULL;
}

/* The architecture of this process; NULL where it is none of the above. Async-signal-safe: yes. Threads: any. */
static inline const struct unwind_architecture *cunwind_host(void) {
#if defined(__x86_64__)
  return &cunwind_x86_64;
#elif defined(__aarch64__)
  return &cunwind_aarch64;
#else
  return NULL;
#endif
}

#endif
