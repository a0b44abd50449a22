/* Steps from frame to frame by unwind tables. Internal to CUnwind.
 *
 * Steps are taken by simple rules (rule_cursor.h) or by libunwind. If libunwind is missing, or the stack belongs to
 * another architecture, a cursor stays in the frame it was set to. Callers are then found by code analysis
 * (no_cfi.h). */
#ifndef CURSOR_H
#define CURSOR_H

#include "walk.h"

/* Maximum size of libunwind's cursor, in words. */
#if defined(__aarch64__)
#define CURSOR_WORDS 512
#else
#define CURSOR_WORDS 128
#endif

/* A frame that was reached by simple rules. */
struct rule_frame {
  uint64_t pc, sp;
  uint64_t saved;                        /* one bit per saved register */
  uint64_t places[UNWIND_REGISTERS_MAX]; /* stack addresses of the saved registers; other registers are the walk's */
};

struct cursor {
  struct walk *walk;
  uint64_t returns_to; /* the walk's value while the cursor is in the resumed frame; otherwise 0 */
  bool by_rules;       /* the frame is in RULES, not in libunwind's cursor */
  bool is_returned_to; /* with rules: the frame made a call */
  uint32_t steps;      /* with rules: number of steps taken */
  union {
    struct rule_frame rules;
    uint64_t words[CURSOR_WORDS];
  };
};

/* An implementation of steps. Each function implements the cunwind_cursor function of the same name below, for cursors
 * that it initialized. */
struct cfi_steps {
  bool (*resume)(struct walk *walk, struct cursor *cursor);
  int (*step)(struct cursor *cursor, bool interrupted);
  bool (*find_register)(struct cursor *cursor, int number, uint64_t *value);
  bool (*find_function)(struct cursor *cursor, struct code_range *range);
  bool (*describes)(struct walk *walk, uint64_t address);
  bool (*was_interrupted)(struct cursor *before, struct cursor *now);
  void (*forget)(struct unwinder *unwinder);
};

/* Sets CURSOR to the innermost frame of WALK's copy. Returns false if the frame cannot be unwound. Async-signal-safe:
 * as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_begin(struct walk *walk, struct cursor *cursor);

/* Sets CURSOR to the frame of WALK's registers: the innermost frame, or the most recently resumed one. Returns false if
 * the frame cannot be unwound. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_resume(struct walk *walk, struct cursor *cursor);

/* Resumes a walk in the middle: sets CURSOR and WALK to the frame with the return address RETURN_ADDRESS, the stack
 * pointer SP and, if HAS_FRAME_POINTER, the frame pointer FRAME_POINTER. Returns false if the frame cannot be unwound.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_resume_at(struct walk *walk, struct cursor *cursor, uint64_t return_address, uint64_t sp,
                              uint64_t frame_pointer, bool has_frame_pointer);

/* Moves CURSOR from its frame, which was INTERRUPTED by a signal or made a call, to its caller's. Returns a positive
 * number on success, 0 at the outermost frame, or a negative number on failure; the walk records the reason.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
int cunwind_cursor_step(struct cursor *cursor, bool interrupted);

/* Whether NOW's frame, reached by a step from BEFORE's, was interrupted by a signal instead of making a call.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_was_interrupted(struct cursor *before, struct cursor *now);

/* Looks up register NUMBER, the stack pointer or the program counter of CURSOR's frame. Returns false if the value is
 * unknown. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_register(struct cursor *cursor, int number, uint64_t *value);
bool cunwind_cursor_sp(struct cursor *cursor, uint64_t *sp);
bool cunwind_cursor_pc(struct cursor *cursor, uint64_t *pc);

/* Finds the function of CURSOR's frame. Returns false if no unwind table describes it. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_function(struct cursor *cursor, struct code_range *range);

/* Whether an unwind table gives the caller of code at ADDRESS. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
bool cunwind_has_cfi(struct walk *walk, uint64_t address);

/* Clears cached facts about code. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_cursor_forget(struct unwinder *unwinder);

#endif
