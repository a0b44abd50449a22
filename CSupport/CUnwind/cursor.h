/* Steps from frame to frame by unwind tables. Internal to CUnwind.
 *
 * Simple rules take them (rule_cursor.h), or libunwind does. Where it is missing, or the stack is of another
 * architecture than this process, a cursor stays in the frame that it was set to: callers are then found by what the
 * code does (no_cfi.h). */
#ifndef CURSOR_H
#define CURSOR_H

#include "walk.h"

/* Words of libunwind's own cursor, at most. */
#if defined(__aarch64__)
#define CURSOR_WORDS 512
#else
#define CURSOR_WORDS 128
#endif

/* A frame that simple rules have led to. */
struct rule_frame {
  uint64_t pc, sp;
  uint64_t saved;                        /* a bit for each register that is */
  uint64_t places[UNWIND_REGISTERS_MAX]; /* where; the others are the walk's */
};

struct cursor {
  struct walk *walk;
  uint64_t returns_to; /* as the walk's, as long as the cursor is there */
  bool by_rules;       /* RULES has its frame, not libunwind's cursor */
  bool is_returned_to; /* with rules: its frame made a call */
  uint32_t steps;      /* with rules: that have been taken */
  union {
    struct rule_frame rules;
    uint64_t words[CURSOR_WORDS];
  };
};

/* What takes the steps. Each function is what the one of its name below is to cursors that it was given. */
struct cfi_steps {
  bool (*resume)(struct walk *walk, struct cursor *cursor);
  int (*step)(struct cursor *cursor, bool interrupted);
  bool (*find_register)(struct cursor *cursor, int number, uint64_t *value);
  bool (*find_function)(struct cursor *cursor, struct code_range *range);
  bool (*describes)(struct walk *walk, uint64_t address);
  bool (*was_interrupted)(struct cursor *before, struct cursor *now);
  void (*forget)(struct unwinder *unwinder);
};

/* Sets CURSOR to the innermost frame of WALK's copy. Returns false when it cannot be unwound.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_begin(struct walk *walk, struct cursor *cursor);

/* Sets CURSOR to where WALK's registers are: the innermost frame, or the one that was resumed last. Returns false when
 * it cannot be unwound. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_resume(struct walk *walk, struct cursor *cursor);

/* Sets CURSOR and WALK to the frame that is returned to at RETURN_ADDRESS with the stack pointer SP and, if
 * HAS_FRAME_POINTER, FRAME_POINTER: for going on in the middle of a walk. Returns false when it cannot be unwound.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_resume_at(struct walk *walk, struct cursor *cursor, uint64_t return_address, uint64_t sp,
                              uint64_t frame_pointer, bool has_frame_pointer);

/* Goes from CURSOR's frame, which was INTERRUPTED by a signal or made a call, to its caller's. Returns a positive
 * number, or 0 at the outermost frame, or a negative number when it cannot: the walk says why. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
int cunwind_cursor_step(struct cursor *cursor, bool interrupted);

/* Whether NOW's frame, to which a step led from BEFORE's, was interrupted by a signal and made no call.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_was_interrupted(struct cursor *before, struct cursor *now);

/* Looks up what CURSOR's frame has in register NUMBER, its stack pointer or its program counter. Returns false when
 * that is not known. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_register(struct cursor *cursor, int number, uint64_t *value);
bool cunwind_cursor_sp(struct cursor *cursor, uint64_t *sp);
bool cunwind_cursor_pc(struct cursor *cursor, uint64_t *pc);

/* Finds the function of CURSOR's frame. Returns false when nothing describes it.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_cursor_function(struct cursor *cursor, struct code_range *range);

/* Whether the caller of code at ADDRESS is found by an unwind table.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_has_cfi(struct walk *walk, uint64_t address);

/* Forgets what was learnt about code. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_cursor_forget(struct unwinder *unwinder);

#endif
