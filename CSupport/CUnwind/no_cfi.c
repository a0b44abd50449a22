#include "no_cfi.h"

#include "call_site.h"
#include "dataflow/solve.h"
#include "function_start.h"
#include "process_memory.h"
#include "prologue.h"
#include "return_path.h"
#include "unwind_tables.h"

enum { FUNCTION_BYTES_MAX = 64 << 10, FRAME_BYTES_MAX = 1 << 20 };

enum { SEARCHED_BYTES_MAX = 4 << 10, PIECE_BYTES = 256, OVERLAP_BYTES = 8 };

enum { STUB_INSTRUCTIONS = 5 };

struct no_cfi_room {
  struct frame_facts facts; /* of the requested function */
};

size_t cunwind_no_cfi_bytes(void) { return sizeof(struct no_cfi_room); }

static bool may_contain(struct walk *walk, uint64_t function, uint64_t pc) {
  return pc >= function && pc - function < FUNCTION_BYTES_MAX && !cunwind_is_described(walk->unwinder, function);
}

static bool keeps_frame_pointer_at(struct walk *walk, uint64_t function, uint64_t pc) {
  struct unwinder *unwinder = walk->unwinder;
  uint8_t code[PIECE_BYTES + OVERLAP_BYTES];
  uint64_t bytes;
  if (!may_contain(walk, function, pc) || pc - function > SEARCHED_BYTES_MAX ||
      !cunwind_read(unwinder, function, code, UNWIND_PROLOGUE_BYTES) ||
      !unwinder->architecture->frame_bytes(code, &bytes))
    return false;
  for (uint64_t at = function; at < pc; at += PIECE_BYTES) {
    size_t length = pc - at < PIECE_BYTES ? (size_t)(pc - at) : PIECE_BYTES;
    if (!cunwind_read(unwinder, at, code, length + OVERLAP_BYTES) ||
        unwinder->architecture->function_ends(code, length))
      return false;
  }
  return true;
}

static bool may_return_to(struct walk *walk, uint64_t return_address, uint64_t pc) {
  struct unwinder *unwinder = walk->unwinder;
  uint64_t target;
  switch (cunwind_call_before(unwinder, return_address, &target)) {
  case UNWIND_CALL_DIRECT:
    return may_contain(walk, target, pc) || may_contain(walk, cunwind_resolve_plt(unwinder, target), pc);
  case UNWIND_CALL_INDIRECT:
    return true;
  default:
    return false;
  }
}

/* Looks up the value that register NUMBER had at the function's entry, saved on the stack. ENTRY is the stack pointer
 * at the function's entry. */
static bool saved_word(struct walk *walk, const struct abstract_state *state, uint64_t entry, int number,
                       uint64_t *word) {
  struct unwinder *unwinder = walk->unwinder;
  for (int index = 0; index < state->cell_count; index++) {
    const struct abstract_cell *cell = &state->cells[index];
    if (cell->where.symbol == 1 + unwinder->architecture->sp && cell->what.symbol == 1 + number &&
        cell->what.offset == 0)
      return cunwind_word(walk, entry + (uint64_t)(int64_t)cell->where.offset, word);
  }
  return false;
}

static struct known_word at_entry(struct walk *walk, const struct abstract_state *state, uint64_t entry, int number,
                                  struct known_word now) {
  struct symbolic_value value = state->registers[number];
  struct known_word word = {false, 0};
  if (now.is_known && value.symbol == 1 + number && value.shift == 0)
    return (struct known_word){true, now.value - (uint64_t)(int64_t)value.offset};
  word.is_known = saved_word(walk, state, entry, number, &word.value);
  return word;
}

/* Confidence in the location of a return address. */
enum certainty {
  CERTAINTY_LOW = 0,  /* needs a second method with the same result */
  CERTAINTY_FAIR = 1, /* needs a second method, or a preceding call that can have led to this function */
  CERTAINTY_FULL = 2, /* two registers agree, or no other location is possible */
};

static bool find_from_start(struct walk *walk, struct code_range function, uint64_t pc, bool interrupted,
                            const struct frame_registers *registers, struct return_place *place,
                            enum certainty *certainty) {
  struct unwinder *unwinder = walk->unwinder;
  struct frame_facts *facts = &unwinder->no_cfi->facts;
  struct code_range cold = {0, 0, false};
  if (!cunwind_frame_facts(unwinder, function, cold, pc, interrupted, false, facts) || facts->origin == FACTS_BY_CALLS)
    return false;
  *certainty = facts->origin == FACTS_BY_PATHS ? CERTAINTY_FAIR : CERTAINTY_LOW;
  place->is_by_table = facts->origin != FACTS_BY_PATHS;
  struct symbolic_value sp = facts->state.registers[unwinder->architecture->sp],
                        pointer = facts->state.registers[unwinder->architecture->frame_pointer];
  struct known_word entry = {false, 0};
  if (sp.symbol == 1 + unwinder->architecture->sp && sp.shift == 0)
    entry = (struct known_word){true, registers->sp.value - (uint64_t)(int64_t)sp.offset};
  place->is_by_frame_pointer = !entry.is_known;
  if (registers->frame_pointer.is_known && pointer.symbol == 1 + unwinder->architecture->sp && pointer.shift == 0) {
    uint64_t other = registers->frame_pointer.value - (uint64_t)(int64_t)pointer.offset;
    if (entry.is_known && entry.value != other)
      return false;
    if (entry.is_known)
      *certainty = CERTAINTY_FULL;
    entry = (struct known_word){true, other};
  }
  if (!entry.is_known || entry.value < registers->sp.value)
    return false;
  int link = unwinder->architecture->link;
  if (link != UNWIND_NO_REGISTER)
    place->return_address = at_entry(walk, &facts->state, entry.value, link, registers->link);
  else
    place->return_address.is_known = cunwind_word(walk, entry.value, &place->return_address.value);
  place->frame_pointer =
      at_entry(walk, &facts->state, entry.value, unwinder->architecture->frame_pointer, registers->frame_pointer);
  place->sp = entry.value + unwinder->architecture->entry_bytes;
  /* A callee might write to locals, whose bounds the code does not show, but not to the frame record. */
  uint64_t record = entry.value + (uint64_t)(int64_t)pointer.offset, word;
  if (!place->frame_pointer.is_known && pointer.symbol == 1 + unwinder->architecture->sp && pointer.shift == 0 &&
      place->return_address.is_known && cunwind_word(walk, record + 8, &word) && word == place->return_address.value)
    place->frame_pointer.is_known = cunwind_word(walk, record, &place->frame_pointer.value);
  return place->return_address.is_known;
}

static bool is_surely_called(struct walk *walk, const struct caller_frame *caller) {
  struct unwinder *unwinder = walk->unwinder;
  struct frame_registers registers = {.sp = {true, caller->sp},
                                      .frame_pointer = {caller->has_frame_pointer, caller->frame_pointer}};
  struct code_range function;
  struct return_place place;
  enum certainty certainty = CERTAINTY_LOW;
  uint64_t target;
  return cunwind_function_at(unwinder, caller->return_address - 1, &function) &&
         find_from_start(walk, function, caller->return_address, false, &registers, &place, &certainty) &&
         certainty == CERTAINTY_FULL &&
         cunwind_call_before(unwinder, cunwind_code_address(unwinder, place.return_address.value), &target) !=
             UNWIND_CALL_NONE;
}

static bool outer_frame_fits(const struct walk *walk, const struct caller_frame *caller, enum call_site site) {
  struct unwinder *unwinder = walk->unwinder;
  struct walk trial = *walk;
  struct code_range function, whole;
  struct cursor cursor;
  if (!cunwind_cursor_resume_at(&trial, &cursor, caller->return_address, caller->sp, caller->frame_pointer,
                                caller->has_frame_pointer))
    return false;
  if (!cunwind_is_described(unwinder, caller->return_address - 1))
    return site >= CALL_SITE_OF_WHOLE || is_surely_called(&trial, caller);
  int result = cunwind_cursor_step(&cursor);
  if (result < 0 || !cunwind_table_function(unwinder, caller->return_address - 1, &function))
    return site >= CALL_SITE_OF_WHOLE;
  uint64_t pc = cunwind_cursor_pc(&cursor);
  if (result == 0 || cursor.was_interrupted || pc == 0)
    return true;
  return cunwind_call_site_before(unwinder, cunwind_code_address(unwinder, pc), function, &whole) != CALL_SITE_OTHER;
}

/* Whether PLACE, found with CERTAINTY, is a plausible caller; sets *CALLER. */
static bool is_caller(struct walk *walk, const struct return_place *place, struct code_range function, bool is_known,
                      uint64_t pc, enum certainty certainty, struct caller_frame *caller) {
  struct unwinder *unwinder = walk->unwinder;
  struct code_range whole;
  uint64_t target;
  *caller = (struct caller_frame){cunwind_code_address(unwinder, place->return_address.value), place->sp,
                                  place->frame_pointer.value, place->frame_pointer.is_known};
  enum unwind_call_kind kind = cunwind_call_before(unwinder, caller->return_address, &target);
  if (kind == UNWIND_CALL_NONE || certainty == CERTAINTY_FULL)
    return kind != UNWIND_CALL_NONE;
  enum call_site site = CALL_SITE_OTHER;
  if (is_known)
    site = cunwind_call_site_before(unwinder, caller->return_address, function, &whole);
  else if (may_return_to(walk, caller->return_address, pc))
    site = kind == UNWIND_CALL_DIRECT ? CALL_SITE_CERTAIN : CALL_SITE_POSSIBLE;
  return site != CALL_SITE_OTHER && outer_frame_fits(walk, caller, site);
}

enum { SEARCHED_STACK_BYTES = 16 << 10, CANDIDATES_MAX = 16 };

/* Whether the analysis of the function that begins at FUNCTION places its return address at AT. */
static bool returns_from(struct walk *walk, uint64_t function, uint64_t pc, bool interrupted, uint64_t at,
                         const struct frame_registers *registers, struct caller_frame *caller) {
  /* The function's end is unknown: the range ends at the next described function, or at a maximum length. Paths do not
   * leave the function. */
  struct code_range range = {function, pc + FUNCTION_BYTES_MAX / 4, false}, around;
  struct return_place place;
  enum certainty certainty = CERTAINTY_LOW;
  bool is_described = cunwind_table_function(walk->unwinder, pc, &around);
  if ((is_described || cunwind_table_gap(walk->unwinder, pc, &around)) && around.end < range.end)
    range.end = around.end;
  if (!may_contain(walk, function, pc) ||
      !find_from_start(walk, range, pc, interrupted, registers, &place, &certainty) ||
      (place.is_by_table && place.is_by_frame_pointer && !is_described) || place.sp != at + sizeof at)
    return false;
  caller->sp = place.sp;
  caller->frame_pointer = place.frame_pointer.value;
  caller->has_frame_pointer = place.frame_pointer.is_known;
  return true;
}

/* Finds the caller by a direct call whose return address lies above the stack pointer. The analysis of the called
 * function up to PC must find the return address at the same place on the stack. */
static bool find_by_call(struct walk *walk, uint64_t pc, bool interrupted, const struct frame_registers *registers,
                         struct caller_frame *caller) {
  struct unwinder *unwinder = walk->unwinder;
  const struct stack_copy *copy = walk->copy;
  uint64_t sp = registers->sp.value;
  if (unwinder->architecture->entry_bytes == 0 || sp < copy->stack_start)
    return false;
  uint64_t end = copy->stack_start + copy->stack_bytes;
  if (end - sp > SEARCHED_STACK_BYTES)
    end = sp + SEARCHED_STACK_BYTES;
  int candidates = 0;
  for (uint64_t at = sp; at + 8 <= end && candidates < CANDIDATES_MAX; at += 8) {
    uint64_t target;
    if (!cunwind_word(walk, at, &caller->return_address) ||
        cunwind_call_before(unwinder, caller->return_address, &target) != UNWIND_CALL_DIRECT)
      continue;
    uint64_t behind = cunwind_resolve_plt(unwinder, target);
    if (!may_contain(walk, target, pc) && !may_contain(walk, behind, pc))
      continue;
    candidates++;
    if (returns_from(walk, target, pc, interrupted, at, registers, caller) ||
        (behind != target && returns_from(walk, behind, pc, interrupted, at, registers, caller)))
      return true;
  }
  return false;
}

/* Result of the code analysis. After a contradiction, other methods must not be used. */
enum finding { FINDING_NONE = 0, FINDING_CALLER, FINDING_CONTRADICTION };

/* Finds the caller from the code around PC alone: from the path from the function's beginning to PC, and from the path
 * from PC to a return. If both paths give a result, the results must agree. */
static enum finding find_by_code(struct walk *walk, uint64_t pc, bool interrupted,
                                 const struct frame_registers *registers, struct caller_frame *caller) {
  struct unwinder *unwinder = walk->unwinder;
  struct code_range function;
  struct return_place from_start = {0}, ahead = {0};
  enum certainty certainty = CERTAINTY_LOW;
  uint64_t at = interrupted ? pc : pc - 1;
  bool is_described = cunwind_table_function(unwinder, at, &function);
  bool is_known = is_described || cunwind_function_around(unwinder, at, &function);
  if (!is_known && !cunwind_table_gap(unwinder, pc, &function))
    function =
        (struct code_range){pc > FUNCTION_BYTES_MAX ? pc - FUNCTION_BYTES_MAX : 0, pc + FUNCTION_BYTES_MAX, false};
  bool starts = is_known && find_from_start(walk, function, pc, interrupted, registers, &from_start, &certainty);
  bool returns = cunwind_return_path(walk, function, is_known, pc, registers, &ahead) && ahead.return_address.is_known;
  if (!starts && !returns)
    return FINDING_NONE;
  /* If no path leads to the code at PC, this code might follow a noreturn call and belong to another function. */
  bool maybe_another = starts && from_start.is_by_table && !is_described;
  if (starts && from_start.is_by_table && find_by_call(walk, pc, interrupted, registers, caller) &&
      caller->sp < from_start.sp)
    return FINDING_CALLER;
  if (starts && returns && from_start.sp == ahead.sp && from_start.return_address.value == ahead.return_address.value) {
    certainty = CERTAINTY_FULL;
    if (!from_start.frame_pointer.is_known)
      from_start.frame_pointer = ahead.frame_pointer;
  } else if (starts && returns && (certainty != CERTAINTY_FULL || maybe_another)) {
    /* The analyses disagree, so one of them continued after a noreturn call. */
    if (ahead.is_straight)
      return FINDING_CONTRADICTION;
    struct caller_frame other;
    bool fits = !(maybe_another && certainty == CERTAINTY_LOW) &&
                is_caller(walk, &from_start, function, is_known, pc, CERTAINTY_FAIR, caller);
    bool other_fits = is_caller(walk, &ahead, function, is_known, pc, CERTAINTY_FAIR, &other);
    if (other_fits)
      *caller = other;
    return fits != other_fits ? FINDING_CALLER : FINDING_CONTRADICTION;
  } else if (!starts) {
    certainty = ahead.is_straight ? CERTAINTY_FULL : CERTAINTY_FAIR;
  }
  if (certainty == CERTAINTY_LOW)
    return FINDING_NONE;
  bool fits = is_caller(walk, starts ? &from_start : &ahead, function, is_known, pc, certainty, caller);
  /* If the function's bounds are unknown, a call can still identify the caller. */
  return fits ? FINDING_CALLER : is_known ? FINDING_CONTRADICTION : FINDING_NONE;
}

bool cunwind_follows_call(struct unwinder *unwinder, uint64_t address) {
  uint64_t target;
  return cunwind_call_before(unwinder, address, &target) != UNWIND_CALL_NONE;
}

static bool is_in_stub(struct unwinder *unwinder, uint64_t pc) {
  uint8_t code[UNWIND_PROLOGUE_BYTES];
  uint64_t entry, width = unwinder->architecture->instruction_bytes;
  /* If instruction lengths vary, only the jump itself can be recognized with certainty. */
  for (uint64_t back = 0; back<(width > 0 ? STUB_INSTRUCTIONS * width : 1); back += width> 0 ? width : 1)
    if (cunwind_read(unwinder, pc - back, code, sizeof code) &&
        unwinder->architecture->is_plt_stub(code, pc - back, &entry))
      return true;
  return false;
}

static bool find_by_stub(struct walk *walk, uint64_t pc, const struct frame_registers *registers,
                         struct caller_frame *caller) {
  struct unwinder *unwinder = walk->unwinder;
  uint64_t return_address = registers->link.value;
  if (!is_in_stub(unwinder, pc))
    return false;
  if (unwinder->architecture->link == UNWIND_NO_REGISTER) {
    if (!cunwind_word(walk, registers->sp.value, &return_address))
      return false;
  } else if (!registers->link.is_known) {
    return false;
  }
  *caller = (struct caller_frame){cunwind_code_address(unwinder, return_address),
                                  registers->sp.value + unwinder->architecture->entry_bytes,
                                  registers->frame_pointer.value, registers->frame_pointer.is_known};
  return cunwind_follows_call(unwinder, caller->return_address);
}

/* Whether LINK, the link register of a function interrupted at PC, can be the function's return address. The frame
 * record then belongs to the caller. False if LINK is the return address of the function's own call of another
 * function. */
static bool link_may_lead(struct walk *walk, uint64_t link, uint64_t pc) {
  struct unwinder *unwinder = walk->unwinder;
  struct code_range function, other;
  uint64_t target;
  enum unwind_call_kind kind = cunwind_call_before(unwinder, link, &target);
  if (kind != UNWIND_CALL_DIRECT || !cunwind_function_at(unwinder, pc, &function) ||
      !cunwind_function_at(unwinder, link - 1, &other) || function.start != other.start)
    return kind != UNWIND_CALL_NONE;
  return cunwind_resolve_plt(unwinder, target) == function.start;
}

static bool find_caller(struct cursor *cursor, uint64_t pc, bool interrupted, struct caller_frame *caller) {
  struct walk *walk = cursor->walk;
  struct unwinder *unwinder = walk->unwinder;
  uint64_t sp = cursor->sp, frame_pointer = 0, link = 0;
  bool has_frame_pointer = cunwind_cursor_register(cursor, unwinder->architecture->frame_pointer, &frame_pointer);
  struct frame_registers registers = {.sp = {true, sp}, .frame_pointer = {has_frame_pointer, frame_pointer}};
  if (interrupted && unwinder->architecture->link != UNWIND_NO_REGISTER &&
      cunwind_cursor_register(cursor, unwinder->architecture->link, &link))
    registers.link = (struct known_word){true, link};
  if (interrupted && find_by_stub(walk, pc, &registers, caller))
    return true;
  enum finding finding = find_by_code(walk, pc, interrupted, &registers, caller);
  if (finding != FINDING_NONE)
    return finding == FINDING_CALLER;
  if (find_by_call(walk, pc, interrupted, &registers, caller))
    return true;
  if (!has_frame_pointer) {
    walk->missing = unwinder->architecture->frame_pointer;
    return false;
  }
  if (frame_pointer % 8 != 0 || frame_pointer < sp || frame_pointer - sp > FRAME_BYTES_MAX)
    return false;
  if (!cunwind_word(walk, frame_pointer, &caller->frame_pointer) ||
      !cunwind_word(walk, frame_pointer + 8, &caller->return_address))
    return false;
  caller->return_address = cunwind_code_address(unwinder, caller->return_address);
  caller->sp = frame_pointer + 16;
  caller->has_frame_pointer = true;
  if (caller->return_address == 0)
    return caller->frame_pointer == 0;
  if (!may_return_to(walk, caller->return_address, pc))
    return false;
  link = cunwind_code_address(unwinder, link);
  if (registers.link.is_known && link != caller->return_address && link_may_lead(walk, link, pc))
    return false;
  /* A function without a frame record has its return address below the caller's record. */
  uint64_t target, between;
  bool is_its_own = cunwind_call_before(unwinder, caller->return_address, &target) == UNWIND_CALL_DIRECT &&
                    keeps_frame_pointer_at(walk, target, pc);
  for (uint64_t at = sp; at < frame_pointer && !is_its_own; at += 8)
    if (cunwind_word(walk, at, &between) && may_return_to(walk, cunwind_code_address(unwinder, between), pc))
      return false;
  return true;
}

bool cunwind_no_cfi_caller(struct cursor *cursor, uint64_t pc, bool interrupted, struct caller_frame *caller) {
  struct walk *walk = cursor->walk;
  uint8_t code;
  walk->beyond_copy = walk->unreadable = false;
  walk->missing = -1;
  bool is_found = find_caller(cursor, pc, interrupted, caller);
  /* Failed reads on rejected paths do not count. */
  walk->unreadable = !cunwind_read(walk->unwinder, pc, &code, sizeof code);
  return is_found;
}
