#include "exception_handover.h"

#include "call_site.h"
#include "frame_pointer_recovery.h"
#include "process_memory.h"
#include "prologue.h"
#include "unwind_tables.h"

/* Deepest frame that can be the unwinder's. */
enum { HANDING_OVER_DEPTH = 3 };

/* Range of the search for the frame that handles the exception. */
enum { SEARCHED_BYTES = 64 << 10 };

static bool is_saved(struct cursor *cursor, int number) {
  uint64_t value;
  cursor->walk->last_read = 0;
  return cunwind_cursor_register(cursor, number, &value) && cursor->walk->last_read != 0;
}

static bool is_frame(const struct cursor *near, struct code_range function, uint64_t return_address, uint64_t sp) {
  struct unwinder *unwinder = near->walk->unwinder;
  struct walk trial = *near->walk;
  struct cursor cursor, before;
  struct code_range whole;
  uint64_t frame_pointer;
  if (!cunwind_cursor_resume_at(&trial, &cursor, return_address, sp, 0, false))
    return false;
  before = cursor;
  int result = cunwind_cursor_step(&cursor);
  if (result < 0 && trial.missing == unwinder->architecture->frame_pointer &&
      cunwind_recover_frame_pointer(&before, false, &frame_pointer) &&
      cunwind_cursor_resume_at(&trial, &cursor, return_address, sp, frame_pointer, true))
    result = cunwind_cursor_step(&cursor);
  uint64_t caller = cunwind_code_address(unwinder, cunwind_cursor_pc(&cursor));
  return result > 0 && cunwind_call_site_before(unwinder, caller, function, &whole) != CALL_SITE_OTHER;
}

static bool find_frame(struct cursor *cursor, uint64_t address, uint64_t *sp, uint64_t *return_address) {
  struct walk *walk = cursor->walk;
  struct unwinder *unwinder = walk->unwinder;
  const struct stack_copy *copy = walk->copy;
  struct code_range function;
  uint64_t target, word;
  if (cunwind_call_before(unwinder, address, &target) == UNWIND_CALL_NONE) {
    /* ADDRESS is the handler. The function that contains the handler called the unwinder. */
    *return_address = address + 1;
    return cunwind_table_function(unwinder, address, &function) && is_frame(cursor, function, *return_address, *sp);
  }
  /* ADDRESS is a return address. Searches the stack for the frame whose call returns to ADDRESS. */
  *return_address = address;
  if (unwinder->architecture->link != UNWIND_NO_REGISTER || !cunwind_table_function(unwinder, address - 1, &function))
    return false;
  uint64_t end = copy->stack_start + copy->stack_bytes;
  if (end - *sp > SEARCHED_BYTES)
    end = *sp + SEARCHED_BYTES;
  for (uint64_t at = *sp; at + 8 <= end; at += 8) {
    if (!cunwind_word(walk, at, &word))
      return false;
    /* The handler's address might already have replaced ADDRESS on the stack. */
    if (word != address && (word <= function.start || word >= function.end))
      continue;
    if (is_frame(cursor, function, address, at + 8)) {
      *sp = at + 8;
      return true;
    }
  }
  return false;
}

enum handover cunwind_handover(struct cursor *callee, struct cursor *cursor, uint32_t depth, uint64_t *sp,
                               uint64_t *return_address) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  struct code_range function;
  /* Only unwinders save the register that passes results and exceptions. */
  if (depth > HANDING_OVER_DEPTH || !is_saved(cursor, unwinder->architecture->result))
    return HANDOVER_NONE;
  if (!cunwind_cursor_function(callee, &function))
    return HANDOVER_LOST;
  *sp = cursor->sp;
  *return_address = cunwind_code_address(unwinder, cunwind_cursor_pc(cursor));
  if (cunwind_calls(unwinder, *return_address, function.start))
    return HANDOVER_FOUND;
  return find_frame(cursor, *return_address, sp, return_address) ? HANDOVER_FOUND : HANDOVER_LOST;
}
