/* Steps from frame to frame by unwind tables (frame_rule.h). Callers of code without a table are found by code analysis
 * (no_cfi.h). */
#ifndef CURSOR_H
#define CURSOR_H

#include "walk.h"

struct cursor {
  struct walk *walk;
  uint64_t returns_to;  /* the walk's value while the cursor is in the resumed frame; otherwise 0 */
  bool is_returned_to;  /* the frame was reached by a step and made a call */
  bool was_interrupted; /* the frame was reached by a step and was interrupted by a signal */
  uint64_t pc, sp;
  uint64_t saved;                        /* set of registers: PLACES has the address of the value */
  uint64_t computed;                     /* set of registers: PLACES has the value */
  uint64_t lost;                         /* set of registers: the value is unknown */
  uint64_t places[UNWIND_REGISTERS_MAX]; /* by register number */
};

/* Sets CURSOR to the frame of WALK's registers: the innermost frame, or the most recently resumed one.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_resume(struct walk *walk, struct cursor *cursor);

/* Sets CURSOR and WALK to the frame with RETURN_ADDRESS, the stack pointer SP and, if HAS_FRAME_POINTER, FRAME_POINTER.
 * Returns false if the frame cannot be unwound. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_resume_at(struct walk *walk, struct cursor *cursor, uint64_t return_address, uint64_t sp,
                              uint64_t frame_pointer, bool has_frame_pointer);

/* Moves CURSOR from its frame to its caller's, or to the frame that a signal interrupted. Returns a positive number on
 * success, 0 at the outermost frame, or a negative number on failure; the walk records the reason. Async-signal-safe:
 * as cunwind_unwind. Threads: as cunwind_unwind. */
int cunwind_cursor_step(struct cursor *cursor);

/* Looks up register NUMBER of CURSOR's frame. Returns false if the value is unknown. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_register(struct cursor *cursor, int number, uint64_t *value);

/* Returns the address at which CURSOR's frame goes on. Async-signal-safe: yes. Threads: any. */
uint64_t cunwind_cursor_pc(const struct cursor *cursor);

/* Finds the function of CURSOR's frame. Returns false if no unwind table describes it. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_function(struct cursor *cursor, struct code_range *range);

#endif
