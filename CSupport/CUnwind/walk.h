/* An unwinder's parts, and one unwinding. Internal to CUnwind. */
#ifndef WALK_H
#define WALK_H

#include "stack_copy.h"
#include "unwind_architecture.h"
#include "unwind_stack.h"

/* Each part is known to the file of its name alone, and lies in the memory that the unwinder was created in. */
struct unwinder {
  const struct unwind_architecture *architecture;
  struct unwind_process process;
  const struct cfi_steps *cfi;       /* what uses unwind tables; NULL: nothing does */
  const struct cfi_steps *library;   /* libunwind, which CFI asks where it does not know itself */
  void *address_space;               /* of LIBRARY's: its caches and their lock */
  struct process_memory *memory;     /* pages that were read */
  struct known_modules *modules;     /* that code was looked up in */
  struct unwind_tables *tables;      /* functions that were looked up */
  struct frame_rules *rules;         /* rows of theirs */
  struct function_starts *starts;    /* the same of those that no table has */
  struct solver *solver;             /* what functions do to their frames */
  struct call_sites *call_sites;     /* which functions calls lead to */
  struct return_paths *return_paths; /* paths to a function's return */
  struct caller_registers_room *callers;
  struct frame_pointer_search *search;
  struct no_cfi_room *no_cfi;
  struct kept_stacks *kept; /* complete stacks */
};

/* A part of the process's code: a function, or the part of one that compilers have put elsewhere; none if both ends are
 * 0. */
struct code_range {
  uint64_t start, end;
  bool catches; /* it has places that only exceptions lead to */
};

/* One unwinding. */
struct walk {
  struct unwinder *unwinder;
  const struct stack_copy *copy;
  struct unwind_registers
      registers;       /* those of the copy, and a frame pointer that was recovered; or of a resumed frame */
  uint64_t returns_to; /* the return address that the resumed frame is at; 0: none is resumed */
  int missing;         /* the last register that was asked for and is not known; -1 if none was */
  bool beyond_copy;    /* a part of the stack was asked for that the copy lacks */
  bool unreadable;     /* memory was asked for that cannot be read */
  bool no_module;      /* an address is in no module */
  bool no_info;        /* a module has no unwind information for an address */
  uint64_t last_read;  /* where the stack was read last; 0: not since this was set to 0 */
};

/* ADDRESS, of code, without a pointer authentication code. Async-signal-safe: yes. Threads: any. */
static inline uint64_t cunwind_code_address(const struct unwinder *unwinder, uint64_t address) {
  return address & unwinder->architecture->code_mask;
}

#endif
