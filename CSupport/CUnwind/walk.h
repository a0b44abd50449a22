#ifndef WALK_H
#define WALK_H

#include "stack_copy.h"
#include "unwind_architecture.h"
#include "unwind_stack.h"

/* Each part is private to the source file of the same name. All parts lie in the unwinder's memory. */
struct unwinder {
  const struct unwind_architecture *architecture;
  struct unwind_process process;
  struct process_memory *memory; /* cached pages */
  struct known_modules *modules;
  struct unwind_tables *tables;   /* cached functions */
  struct frame_rules *rules;      /* cached rules of described functions */
  struct function_starts *starts; /* cached functions without table entries */
  struct solver *solver;
  struct call_sites *call_sites;     /* cached targets of calls */
  struct return_paths *return_paths; /* pending paths to returns */
  struct caller_registers_room *callers;
  struct frame_pointer_search *search;
  struct no_cfi_room *no_cfi;
  struct kept_stacks *kept; /* complete stacks */
};

/* A range of the process's code: a function or an outlined part of one; empty if both ends are 0. */
struct code_range {
  uint64_t start, end;
  bool catches; /* has landing pads for exceptions */
};

struct walk {
  struct unwinder *unwinder;
  const struct stack_copy *copy;
  struct unwind_registers
      registers;       /* registers of the copy plus a recovered frame pointer, or those of a resumed frame */
  uint64_t returns_to; /* the return address of the resumed frame; 0: none */
  int missing;         /* the last register that was requested but is unknown; -1: none */
  bool beyond_copy;    /* a requested part of the stack is not in the copy */
  bool unreadable;     /* requested memory cannot be read */
  bool no_module;
  bool no_info;       /* a module has no unwind information for an address */
  uint64_t last_read; /* address of the last word read from the copy */
};

/* Returns the code address ADDRESS without its pointer authentication code. Async-signal-safe: yes. Threads: any. */
static inline uint64_t cunwind_code_address(const struct unwinder *unwinder, uint64_t address) {
  return address & unwinder->architecture->code_mask;
}

#endif
