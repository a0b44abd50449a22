/* The worklist: a function's code is gone through along all its paths until nothing new is learnt. Internal to CUnwind.
 */
#ifndef SOLVE_H
#define SOLVE_H

#include "values.h"

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_solver_bytes(void);

/* Finds the facts of the frame whose function is entered at RANGE's beginning and is at PC: after the call that ends
 * there, or, if it was INTERRUPTED, before the instruction there. COLD is another part of the function. With LOADS,
 * what was loaded from memory shortly before PC gets a symbol as well. Returns false when the function is too large,
 * not understood, or not seen to come to PC. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_frame_facts(struct unwinder *unwinder, struct code_range range, struct code_range cold, uint64_t pc,
                         bool interrupted, bool loads, struct frame_facts *facts);

/* How a function leaves its code by jumps. */
struct function_jumps {
  bool anywhere;   /* its frame gone, to where only a register knows: a call of an unknown function in its place */
  bool with_frame; /* to the address that was asked for, its frame being there */
};

/* Finds how the function of RANGE jumps, to TARGET above all. Returns false when it is too large or not understood.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_function_jumps(struct unwinder *unwinder, struct code_range range, uint64_t target,
                            struct function_jumps *jumps);

/* Whether the function of RANGE, once a call has returned to FROM in it or in OTHER, to which it may jump, may reach
 * the call that returns to TO; and with GROWS, whether it may make room on the stack, of a size that its code does not
 * tell, before it ends. True in case of doubt. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_function_reaches(struct unwinder *unwinder, struct code_range range, struct code_range other,
                              uint64_t from, uint64_t to, bool *grows);

/* Forgets what was found out: the code may have been replaced.
 * Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_solver_forget(struct unwinder *unwinder);

#endif
