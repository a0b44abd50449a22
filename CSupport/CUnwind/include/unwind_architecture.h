/* The properties of a processor architecture that unwinding needs. The stack, not the host, determines which
 * architecture is used. */
#ifndef UNWIND_ARCHITECTURE_H
#define UNWIND_ARCHITECTURE_H

#include "unwind_registers.h"

#include <string.h>

/* Number of code bytes examined before a return address, at the beginning of a function or PLT stub, and at a signal
 * handler's return address. */
enum {
  UNWIND_CALL_BYTES = 8,
  UNWIND_PROLOGUE_BYTES = 48,
  UNWIND_SIGNAL_RETURN_BYTES = 9,
};

/* Not a register number. */
enum { UNWIND_NO_REGISTER = -1 };

enum unwind_call_kind {
  UNWIND_CALL_NONE = 0,
  UNWIND_CALL_DIRECT = 1,
  UNWIND_CALL_INDIRECT = 2,
};

struct code_operation;

/* All functions are async-signal-safe. Threads: any. */
struct unwind_architecture {
  const char *name; /* as in uname(2) */

  int registers;         /* number of registers in struct unwind_registers */
  int general_registers; /* registers with lower numbers can be instruction operands */
  int sp, pc, frame_pointer;
  int result; /* holds function results, and exceptions on entry to their handlers */
  int link;   /* receives the return address of a call; UNWIND_NO_REGISTER if calls push it on the stack */
  int return_column;
  int arguments[6];        /* registers that pass the arguments of system calls */
  uint64_t call_clobbered; /* registers that a call can change, one bit each */

  uint64_t entry_bytes; /* distance of the stack pointer below the canonical frame address at a function's entry */
  uint64_t red_zone;    /* bytes below the stack pointer that functions can use and signals preserve */
  uint64_t function_alignment;
  uint64_t instruction_bytes; /* length of an instruction; 0 if it varies */
  uint64_t signal_registers;  /* in a signal's return trampoline, distance of the saved registers above the stack
                                 pointer, in order of their numbers; 0 if the trampoline has an unwind table entry */
  uint64_t code_mask;         /* address bits of a code pointer; the other bits hold its pointer authentication code */

  /* Returns the kind of call that ends at RETURN_ADDRESS. CODE is the UNWIND_CALL_BYTES bytes before that address. Sets
   * *TARGET for a direct call. */
  enum unwind_call_kind (*call_before)(const uint8_t *code, uint64_t return_address, uint64_t *target);

  /* Whether the call that ends at RETURN_ADDRESS goes through the global offset table; sets *ENTRY to the address of
   * the table entry. CODE is the UNWIND_CALL_BYTES bytes before RETURN_ADDRESS. */
  bool (*calls_got_entry)(const uint8_t *code, uint64_t return_address, uint64_t *entry);

  /* Whether the UNWIND_PROLOGUE_BYTES bytes of CODE at ADDRESS are a PLT stub; sets *ENTRY to the address of its entry
   * in the global offset table. */
  bool (*is_plt_stub)(const uint8_t *code, uint64_t address, uint64_t *entry);

  /* Whether the UNWIND_SIGNAL_RETURN_BYTES bytes of CODE are the return trampoline of a signal handler: the system call
   * that resumes the interrupted code. */
  bool (*is_signal_return)(const uint8_t *code);

  /* Finds the distance of the frame pointer above the stack pointer at calls of the function that begins with the
   * UNWIND_PROLOGUE_BYTES bytes of CODE. Returns false if these bytes do not determine it. */
  bool (*frame_bytes)(const uint8_t *code, uint64_t *bytes);

  /* Whether the UNWIND_PROLOGUE_BYTES bytes of CODE begin a function that keeps a frame pointer. */
  bool (*begins_frame)(const uint8_t *code);

  /* Whether a function ends within the LENGTH bytes of CODE and another function follows. Eight more bytes must be
   * readable. True in case of doubt. */
  bool (*function_ends)(const uint8_t *code, size_t length);

  /* Returns the length of the padding instruction at the beginning of CODE, or 0 if there is none. 16 bytes must be
   * readable. */
  size_t (*padding)(const uint8_t *code);

  /* Decodes the instruction at the beginning of CODE, which has CODE_BYTES bytes and lies at ADDRESS, into *COUNT
   * operations (unwind_code.h). Returns the instruction's length in bytes, or 0 if it is unknown. */
  size_t (*decode)(const uint8_t *code, uint64_t address, struct code_operation *operations, int *count);
};

extern const struct unwind_architecture cunwind_x86_64;
extern const struct unwind_architecture cunwind_aarch64;

/* Returns the architecture that uname(2) calls NAME; NULL if it is not supported. Async-signal-safe: yes. Threads:
 * any. */
static inline const struct unwind_architecture *cunwind_architecture(const char *name) {
  return strcmp(name, cunwind_x86_64.name) == 0    ? &cunwind_x86_64
         : strcmp(name, cunwind_aarch64.name) == 0 ? &cunwind_aarch64
                                                   : NULL;
}

/* Returns the architecture of this process; NULL if it is not supported. Async-signal-safe: yes. Threads: any. */
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
