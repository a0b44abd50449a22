#include "cursor.h"

#include "process_memory.h"
#include "unwind_tables.h"

bool cunwind_cursor_resume(struct walk *walk, struct cursor *cursor) {
  cursor->walk = walk;
  cursor->returns_to = walk->returns_to;
  return !walk->unwinder->cfi || walk->unwinder->cfi->resume(walk, cursor);
}

bool cunwind_cursor_begin(struct walk *walk, struct cursor *cursor) {
  cunwind_memory_forget(walk->unwinder, false);
  return cunwind_cursor_resume(walk, cursor);
}

/* The unwind table is looked up at the call instruction, because the code after a noreturn call belongs to another
 * function. */
bool cunwind_cursor_resume_at(struct walk *walk, struct cursor *cursor, uint64_t return_address, uint64_t sp,
                              uint64_t frame_pointer, bool has_frame_pointer) {
  cunwind_set_frame(walk->unwinder->architecture, &walk->registers, return_address - 1, sp, frame_pointer,
                    has_frame_pointer);
  walk->returns_to = return_address;
  return cunwind_cursor_resume(walk, cursor);
}

bool cunwind_cursor_register(struct cursor *cursor, int number, uint64_t *value) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  return unwinder->cfi ? unwinder->cfi->find_register(cursor, number, value)
                       : cunwind_register(unwinder->architecture, &cursor->walk->registers, number, value);
}

bool cunwind_cursor_sp(struct cursor *cursor, uint64_t *sp) {
  return cunwind_cursor_register(cursor, cursor->walk->unwinder->architecture->sp, sp);
}

bool cunwind_cursor_pc(struct cursor *cursor, uint64_t *pc) {
  if (cursor->returns_to != 0) {
    *pc = cursor->returns_to;
    return true;
  }
  return cunwind_cursor_register(cursor, cursor->walk->unwinder->architecture->pc, pc);
}

bool cunwind_cursor_function(struct cursor *cursor, struct code_range *range) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  uint64_t pc;
  if (unwinder->cfi)
    return unwinder->cfi->find_function(cursor, range);
  return cunwind_cursor_pc(cursor, &pc) && cunwind_table_function(unwinder, pc - (cursor->returns_to != 0), range);
}

bool cunwind_has_cfi(struct walk *walk, uint64_t address) {
  bool no_module = walk->no_module, no_info = walk->no_info;
  bool has_cfi = walk->unwinder->cfi && walk->unwinder->cfi->describes(walk, address);
  walk->no_module = no_module;
  walk->no_info = no_info;
  return has_cfi;
}

static void clear(struct walk *walk) {
  walk->beyond_copy = walk->unreadable = walk->no_module = walk->no_info = false;
  walk->missing = -1;
}

int cunwind_cursor_step(struct cursor *cursor, bool interrupted) {
  struct walk *walk = cursor->walk;
  clear(walk);
  if (!walk->unwinder->cfi) {
    walk->no_info = true;
    return -1;
  }
  int result = walk->unwinder->cfi->step(cursor, interrupted);
  cursor->returns_to = 0;
  /* Without sufficient unwind information libunwind guesses, and reports a failed guess as the outermost frame. */
  if (result == 0 && (walk->beyond_copy || walk->missing >= 0 || walk->no_info || walk->no_module || walk->unreadable))
    return -1;
  return result;
}

bool cunwind_cursor_was_interrupted(struct cursor *before, struct cursor *now) {
  const struct cfi_steps *cfi = now->walk->unwinder->cfi;
  return cfi && cfi->was_interrupted(before, now);
}

void cunwind_cursor_forget(struct unwinder *unwinder) {
  if (unwinder->cfi)
    unwinder->cfi->forget(unwinder);
}
