/* Worklist solver: follows all paths of a function until its facts reach a fixpoint. */
#ifndef SOLVE_H
#define SOLVE_H

#include "values.h"

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_solver_bytes(void);

/* Finds the facts of a frame of the function that begins at RANGE's beginning. The frame is at PC: after the call that
 * ends at PC or, if INTERRUPTED, before the instruction at PC. COLD is an outlined part of the function. If LOADS is
 * set, values loaded from memory shortly before PC also get symbols. Returns false if the function is too large or not
 * understood, or if no path to PC is found. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_frame_facts(struct unwinder *unwinder, struct code_range range, struct code_range cold, uint64_t pc,
                         bool interrupted, bool loads, struct frame_facts *facts);

/* Jumps out of a function. */
struct function_jumps {
  bool anywhere;   /* a tail call has an unknown target */
  bool with_frame; /* a jump to TARGET keeps the frame, so TARGET is an outlined part */
};

/* Finds the jumps of the function of RANGE. Returns false if the function is too large or not understood.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_function_jumps(struct unwinder *unwinder, struct code_range range, uint64_t target,
                            struct function_jumps *jumps);

/* Whether the function of RANGE can reach the call that returns to TO after a call has returned to FROM. FROM lies in
 * RANGE or in OTHER, a function to which RANGE might jump. Sets *GROWS to whether the stack pointer can be lowered by
 * an unknown amount after FROM. Both results are true in case of doubt. Async-signal-safe: as cunwind_unwind. Threads:
 * as cunwind_unwind. */
bool cunwind_function_reaches(struct unwinder *unwinder, struct code_range range, struct code_range other,
                              uint64_t from, uint64_t to, bool *grows);

/* Clears cached answers. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_solver_forget(struct unwinder *unwinder);

#endif
