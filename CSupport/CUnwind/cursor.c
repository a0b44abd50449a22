#include "cursor.h"

#include "expression.h"
#include "frame_rule.h"
#include "process_memory.h"
#include "unwind_tables.h"

bool cunwind_cursor_resume(struct walk *walk, struct cursor *cursor) {
  const struct unwind_architecture *architecture = walk->unwinder->architecture;
  cursor->walk = walk;
  cursor->returns_to = walk->returns_to;
  cursor->is_returned_to = cursor->was_interrupted = false;
  cursor->saved = cursor->computed = cursor->lost = 0;
  return cunwind_register(architecture, &walk->registers, architecture->pc, &cursor->pc) &&
         cunwind_register(architecture, &walk->registers, architecture->sp, &cursor->sp);
}

/* The unwind table is looked up at the call instruction, because the code after a noreturn call can belong to another
 * function. */
bool cunwind_cursor_resume_at(struct walk *walk, struct cursor *cursor, uint64_t return_address, uint64_t sp,
                              uint64_t frame_pointer, bool has_frame_pointer) {
  cunwind_set_frame(walk->unwinder->architecture, &walk->registers, return_address - 1, sp, frame_pointer,
                    has_frame_pointer);
  walk->returns_to = return_address;
  return cunwind_cursor_resume(walk, cursor);
}

static bool find_set(struct cursor *cursor, int number, uint64_t *value) {
  struct walk *walk = cursor->walk;
  const struct unwind_architecture *architecture = walk->unwinder->architecture;
  if (cursor->saved >> number & 1)
    return cunwind_word(walk, cursor->places[number], value);
  if (cursor->computed >> number & 1) {
    *value = cursor->places[number];
    return true;
  }
  if (cursor->lost >> number & 1)
    return false;
  if (cunwind_register(architecture, &walk->registers, number, value))
    return true;
  if (number != architecture->link)
    walk->missing = number;
  return false;
}

bool cunwind_cursor_register(struct cursor *cursor, int number, uint64_t *value) {
  const struct unwind_architecture *architecture = cursor->walk->unwinder->architecture;
  if (number != architecture->pc && number != architecture->sp)
    return find_set(cursor, number, value);
  *value = number == architecture->pc ? cursor->pc : cursor->sp;
  return true;
}

uint64_t cunwind_cursor_pc(const struct cursor *cursor) {
  return cursor->returns_to != 0 ? cursor->returns_to : cursor->pc;
}

static uint64_t looked_up(const struct cursor *cursor) {
  return cunwind_code_address(cursor->walk->unwinder, cursor->pc) - cursor->is_returned_to;
}

bool cunwind_cursor_function(struct cursor *cursor, struct code_range *range) {
  return cunwind_table_function(cursor->walk->unwinder, looked_up(cursor), range);
}

static bool find_for_expression(void *frame, int number, uint64_t *value) {
  return cunwind_cursor_register(frame, number, value);
}

static bool set_register(struct cursor *cursor, struct cursor *frame, const struct frame_rule *rule,
                         struct register_rule place, uint64_t cfa) {
  uint64_t bit = UINT64_C(1) << place.number, *value = &cursor->places[place.number];
  uint64_t expression = rule->description + (uint64_t)(int64_t)place.value;
  bool is_known = true;
  cursor->saved &= ~bit;
  cursor->computed &= ~bit;
  cursor->lost &= ~bit;
  switch (place.kind) {
  case PLACE_AT_OFFSET:
  case PLACE_IS_OFFSET:
    *value = cfa + (uint64_t)(int64_t)place.value;
    break;
  case PLACE_IN_REGISTER:
    /* The number in a table can be a vector register's, or invalid. */
    is_known = place.value >= 0 && place.value < cursor->walk->unwinder->architecture->registers &&
               cunwind_cursor_register(frame, place.value, value);
    break;
  case PLACE_AT_EXPRESSION:
  case PLACE_IS_EXPRESSION:
    if (!cunwind_evaluate(frame->walk, expression, find_for_expression, frame, &cfa, value))
      return false;
    break;
  default: /* PLACE_LOST */
    is_known = false;
    break;
  }
  bool is_saved = place.kind == PLACE_AT_OFFSET || place.kind == PLACE_AT_EXPRESSION;
  *(!is_known ? &cursor->lost : is_saved ? &cursor->saved : &cursor->computed) |= bit;
  return true;
}

/* Completes a step from FRAME to CURSOR, whose program counter is in register NUMBER. */
static int arrive(struct cursor *cursor, const struct cursor *frame, int number, uint64_t sp) {
  int sp_number = cursor->walk->unwinder->architecture->sp;
  cursor->sp = sp;
  if (((cursor->saved | cursor->computed | cursor->lost) >> sp_number & 1) && !find_set(cursor, sp_number, &cursor->sp))
    return -1;
  if (!find_set(cursor, number, &cursor->pc)) {
    if (!((cursor->saved | cursor->computed | cursor->lost) >> number & 1))
      cursor->walk->missing = number;
    return -1;
  }
  return cursor->pc != frame->pc || cursor->sp != frame->sp ? 1 : -1;
}

static bool find_cfa(struct cursor *frame, const struct frame_rule *rule, uint64_t *cfa) {
  uint64_t distance = (uint64_t)(int64_t)rule->cfa.value;
  if (rule->cfa.kind == PLACE_IS_EXPRESSION)
    return cunwind_evaluate(frame->walk, rule->description + distance, find_for_expression, frame, NULL, cfa);
  if (!cunwind_cursor_register(frame, rule->cfa.number, cfa))
    return false;
  *cfa += distance;
  return true;
}

static int step_by_rule(struct cursor *cursor, struct cursor *frame, const struct frame_rule *rule) {
  uint64_t cfa;
  if (rule->is_outermost)
    return 0;
  if (!find_cfa(frame, rule, &cfa))
    return -1;
  for (int index = 0; index < rule->count; index++)
    if (!set_register(cursor, frame, rule, rule->registers[index], cfa))
      return -1;
  cursor->is_returned_to = !rule->is_signal_frame;
  cursor->was_interrupted = rule->is_signal_frame;
  return arrive(cursor, frame, cursor->walk->unwinder->architecture->return_column, cfa);
}

/* Whether FRAME is the return trampoline of a signal handler. The interrupted registers lie at a fixed offset on its
 * stack, so they are found without a table. */
static bool is_trampoline(const struct cursor *frame) {
  struct unwinder *unwinder = frame->walk->unwinder;
  uint8_t code[UNWIND_SIGNAL_RETURN_BYTES];
  return unwinder->architecture->signal_registers != 0 &&
         cunwind_read(unwinder, cunwind_code_address(unwinder, frame->pc), code, sizeof code) &&
         unwinder->architecture->is_signal_return(code);
}

static int step_by_trampoline(struct cursor *cursor, const struct cursor *frame) {
  const struct unwind_architecture *architecture = cursor->walk->unwinder->architecture;
  for (int number = 0; number < architecture->registers; number++)
    cursor->places[number] = frame->sp + architecture->signal_registers + 8 * (uint64_t)number;
  cursor->saved = (UINT64_C(1) << architecture->registers) - 1;
  cursor->computed = cursor->lost = 0;
  cursor->is_returned_to = false;
  cursor->was_interrupted = true;
  return arrive(cursor, frame, architecture->pc, 0);
}

int cunwind_cursor_step(struct cursor *cursor) {
  struct walk *walk = cursor->walk;
  struct unwinder *unwinder = walk->unwinder;
  const struct unwind_architecture *architecture = unwinder->architecture;
  struct cursor frame = *cursor;
  struct unwind_module module;
  uint64_t both = UINT64_C(1) << architecture->sp | UINT64_C(1) << architecture->pc;
  walk->beyond_copy = walk->unreadable = walk->no_module = walk->no_info = false;
  walk->missing = -1;
  cursor->returns_to = 0;
  cursor->was_interrupted = false;
  cursor->saved &= ~both;
  cursor->computed &= ~both;
  cursor->lost &= ~both;
  const struct frame_rule *rule = cunwind_rule_at(unwinder, looked_up(&frame));
  if ((!rule || rule->is_signal_frame) && is_trampoline(&frame))
    return step_by_trampoline(cursor, &frame);
  if (rule)
    return step_by_rule(cursor, &frame, rule);
  walk->no_module = !cunwind_find_module(unwinder, looked_up(&frame), &module);
  walk->no_info = !walk->no_module && !cunwind_is_described(unwinder, looked_up(&frame));
  return -1;
}
