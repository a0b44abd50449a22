#include "exception_handover.h"

#include "dataflow/solve.h"
#include "prologue.h"

/* Unwinders are known by their saving the register that results and exceptions are passed in, which no other function
 * does, and are innermost but for what they call. */
enum { HANDING_OVER_DEPTH = 3 };

struct handover {
  struct frame_facts facts;
};

size_t cunwind_handover_bytes(void) { return sizeof(struct handover); }

/* Where in the copied stack CURSOR's frame finds register NUMBER; 0: not there. */
static uint64_t saved_at(struct cursor *cursor, int number) {
  uint64_t value;
  cursor->walk->last_read = 0;
  return cunwind_cursor_register(cursor, number, &value) ? cursor->walk->last_read : 0;
}

enum trust cunwind_trust_after(struct cursor *callee, struct cursor *cursor, enum trust before, uint32_t depth) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  const struct unwind_architecture *architecture = unwinder->architecture;
  uint64_t sp, frame_pointer, caller_sp, return_address;
  struct code_range function;
  bool is_unwinder = before == TRUST_ALL && depth <= HANDING_OVER_DEPTH && saved_at(cursor, architecture->result) != 0;
  if (before == TRUST_ALL && !is_unwinder)
    return TRUST_ALL;
  if (!cunwind_cursor_sp(callee, &sp) ||
      !cunwind_cursor_register(callee, architecture->frame_pointer, &frame_pointer) ||
      !cunwind_cursor_sp(cursor, &caller_sp) || !cunwind_cursor_pc(cursor, &return_address) ||
      !cunwind_cursor_function(callee, &function))
    return TRUST_NOTHING;
  return_address = cunwind_code_address(unwinder, return_address);
  if (is_unwinder)
    return cunwind_calls(unwinder, return_address, function.start) ? TRUST_NO_FRAME_POINTER : TRUST_NOTHING;
  if (frame_pointer >= sp && frame_pointer < caller_sp) {
    bool fits = cunwind_frame_pointer_fits(unwinder, function.start, sp, frame_pointer, return_address);
    return fits ? TRUST_ALL : TRUST_NOTHING;
  }
  uint64_t at = saved_at(cursor, architecture->frame_pointer);
  return at >= sp && at < caller_sp ? TRUST_ALL : TRUST_NO_FRAME_POINTER;
}

bool cunwind_frame_pointer_by_code(struct cursor *cursor, uint64_t *frame_pointer) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  struct frame_facts *facts = &unwinder->handover->facts;
  struct code_range function, none = {0};
  uint64_t sp, pc;
  if (!cunwind_cursor_sp(cursor, &sp) || !cunwind_cursor_pc(cursor, &pc) ||
      !cunwind_cursor_function(cursor, &function) ||
      !cunwind_frame_facts(unwinder, function, none, cunwind_code_address(unwinder, pc), false, false, facts))
    return false;
  struct symbolic_value at_sp = facts->state.registers[unwinder->architecture->sp];
  struct symbolic_value pointer = facts->state.registers[unwinder->architecture->frame_pointer];
  *frame_pointer = sp + (uint64_t)((int64_t)pointer.offset - at_sp.offset);
  return at_sp.symbol != 0 && at_sp.symbol == pointer.symbol && at_sp.shift == 0 && pointer.shift == 0;
}
