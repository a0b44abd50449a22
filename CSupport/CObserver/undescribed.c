#include "undescribed.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "frame_facts.h"
#include "function_start.h"
#include "links.h"
#include "observer_arch.h"
#include "observer_context.h"
#include "observer_module.h"
#include "return_path.h"

/* Farther apart a function's beginning and its code are not taken to be, nor its stack pointer and its frame pointer. */
enum { FUNCTION_BYTES_MAX = 64 << 10, FRAME_BYTES_MAX = 1 << 20 };

/* So much of a function is looked through for its end. */
enum { SEARCHED_BYTES_MAX = 4 << 10, PIECE_BYTES = 256, OVERLAP_BYTES = 8 };

/* What kind of call ends at RETURN_ADDRESS, in any memory that can be read, and where a direct one leads to. */
static enum observer_call_kind call_before(uint64_t return_address, uint64_t *target) {
  enum { PAGE = 4096 };
  uint8_t code[OBSERVER_CALL_BYTES] = {0};
  size_t length = sizeof code;
  if (return_address < PAGE)
    return OBSERVER_CALL_NONE;
  /* Memory may begin with the call. */
  if (!observer_walk_read(return_address - length, code, length)) {
    length = return_address % PAGE < length ? (size_t)(return_address % PAGE) : 0;
    if (length == 0 || !observer_walk_read(return_address - length, code + sizeof code - length, length))
      return OBSERVER_CALL_NONE;
  }
  return observer_arch_call_before(code, return_address, target);
}

/* Where the linkage stub at TARGET leads to; TARGET itself where there is none. */
static uint64_t behind_stub(uint64_t target) {
  uint8_t stub[OBSERVER_PROLOGUE_BYTES];
  uint64_t slot, resolved;
  return observer_walk_read(target, stub, sizeof stub) && observer_arch_stub(stub, target, &slot) &&
                 observer_walk_read(slot, &resolved, sizeof resolved)
             ? resolved
             : target;
}

/* Whether the function that begins at FUNCTION, which nothing describes either, may go on to PC. */
static bool may_contain(struct walk *walk, uint64_t function, uint64_t pc) {
  return pc >= function && pc - function < FUNCTION_BYTES_MAX && !observer_walk_describes(walk, function);
}

/* Whether PC is in the function that begins at FUNCTION, and that function keeps a frame pointer. */
static bool keeps_frame_pointer_at(struct walk *walk, uint64_t function, uint64_t pc) {
  uint8_t code[PIECE_BYTES + OVERLAP_BYTES];
  uint64_t bytes;
  if (!may_contain(walk, function, pc) || pc - function > SEARCHED_BYTES_MAX ||
      !observer_walk_read(function, code, OBSERVER_PROLOGUE_BYTES) || !observer_arch_frame_bytes(code, &bytes))
    return false;
  for (uint64_t at = function; at < pc; at += PIECE_BYTES) {
    size_t length = pc - at < PIECE_BYTES ? (size_t)(pc - at) : PIECE_BYTES;
    if (!observer_walk_read(at, code, length + OVERLAP_BYTES) || observer_arch_function_ends(code, length))
      return false;
  }
  return true;
}

/* Whether RETURN_ADDRESS is one that the function around PC may return to. */
static bool may_return_to(struct walk *walk, uint64_t return_address, uint64_t pc) {
  uint64_t target;
  switch (call_before(return_address, &target)) {
  case OBSERVER_CALL_DIRECT:
    return may_contain(walk, target, pc) || may_contain(walk, behind_stub(target), pc);
  case OBSERVER_CALL_INDIRECT:
    return true;
  default:
    return false;
  }
}

/* What was found out about the function of a frame, for each context. */
static struct frame_facts facts_of[OBSERVER_CONTEXTS_MAX];

/* Looks up where STATE, of a frame whose stack pointer was ENTRY when its function was entered, keeps what register NUMBER held
 * then. Returns false when it is not on the stack. */
static bool saved_word(struct walk *walk, const struct fact_state *state, uint64_t entry, int number, uint64_t *word) {
  for (int index = 0; index < state->slot_count; index++) {
    const struct fact_slot *slot = &state->slots[index];
    if (slot->where.base == 1 + CODE_SP && slot->where.shift == 0 && slot->what.base == 1 + number &&
        slot->what.shift == 0 && slot->what.offset == 0)
      return observer_walk_word(walk, entry + (uint64_t)(int64_t)slot->where.offset, word);
  }
  return false;
}

/* What register NUMBER, which is NOW, held when the function was entered. */
static struct known_word at_entry(struct walk *walk, const struct fact_state *state, uint64_t entry, int number,
                                  struct known_word now) {
  struct fact_value value = state->registers[number];
  struct known_word word = {false, 0};
  if (now.is_known && value.base == 1 + number && value.shift == 0)
    return (struct known_word){true, now.value - (uint64_t)(int64_t)value.offset};
  word.is_known = saved_word(walk, state, entry, number, &word.value);
  return word;
}

/* How sure it is where the return address lies. */
enum certainty {
  CERTAINTY_LOW = 0,  /* another way of finding it out must say the same */
  CERTAINTY_FAIR = 1, /* or the call before the return address must be one that can have led here */
  CERTAINTY_FULL = 2, /* two registers say the same, or there is no other way */
};

/* Where the caller of a frame is, by what the code of FUNCTION does on all its ways from its beginning to PC. */
static bool find_from_start(struct walk *walk, struct code_range function, uint64_t pc, bool interrupted,
                            const struct frame_registers *registers, struct return_place *place,
                            enum certainty *certainty) {
  struct frame_facts *facts = &facts_of[observer_context];
  struct code_range cold = {0, 0, false};
  if (!observer_frame_facts(function, cold, pc, interrupted, false, facts) || facts->origin == FACTS_BY_CALLS)
    return false;
  *certainty = facts->origin == FACTS_BY_WAYS ? CERTAINTY_FAIR : CERTAINTY_LOW;
  struct fact_value sp = facts->state.registers[CODE_SP], pointer = facts->state.registers[CODE_FRAME_POINTER];
  struct known_word entry = {false, 0};
  if (sp.base == 1 + CODE_SP && sp.shift == 0)
    entry = (struct known_word){true, registers->sp.value - (uint64_t)(int64_t)sp.offset};
  if (registers->frame_pointer.is_known && pointer.base == 1 + CODE_SP && pointer.shift == 0) {
    uint64_t other = registers->frame_pointer.value - (uint64_t)(int64_t)pointer.offset;
    if (entry.is_known && entry.value != other)
      return false;
    if (entry.is_known)
      *certainty = CERTAINTY_FULL;
    entry = (struct known_word){true, other};
  }
  if (!entry.is_known || entry.value < registers->sp.value)
    return false;
  int link = observer_code_return_register();
  if (link != CODE_NO_REGISTER)
    place->return_address = at_entry(walk, &facts->state, entry.value, link, registers->link);
  else
    place->return_address.is_known = observer_walk_word(walk, entry.value, &place->return_address.value);
  place->frame_pointer =
      at_entry(walk, &facts->state, entry.value, CODE_FRAME_POINTER, registers->frame_pointer);
  place->sp = entry.value + observer_code_entry_bytes();
  return place->return_address.is_known;
}

/* Whether the code of the function that CALLER is in, which nothing describes either, says for sure where it was called. */
static bool is_surely_called(struct walk *walk, const struct observer_caller *caller) {
  struct frame_registers registers = {.sp = {true, caller->sp},
                                      .frame_pointer = {caller->has_frame_pointer, caller->frame_pointer}};
  struct code_range function;
  struct return_place place;
  enum certainty certainty = CERTAINTY_LOW;
  uint64_t target;
  return observer_function_around(caller->return_address - 1, &function) &&
         find_from_start(walk, function, caller->return_address, false, &registers, &place, &certainty) &&
         certainty == CERTAINTY_FULL &&
         call_before(observer_arch_code_address(place.return_address.value), &target) != OBSERVER_CALL_NONE;
}

/* Whether CALLER's own caller fits: what it returns to follows a call that can have led to it. LINK is that of CALLER's call. */
static bool outer_frame_fits(const struct walk *walk, const struct observer_caller *caller, enum observer_link link) {
  struct walk trial = *walk;
  struct code_range function, whole;
  unw_cursor_t cursor, callee;
  unw_word_t pc = 0;
  observer_arch_set_frame(&trial.registers, caller->return_address - 1, caller->sp, caller->frame_pointer,
                          caller->has_frame_pointer);
  if (!observer_walk_resume(&trial, &cursor))
    return false;
  callee = cursor;
  if (!observer_walk_function(caller->return_address - 1, &function))
    return link >= OBSERVER_LINK_PART || is_surely_called(&trial, caller);
  int result = observer_walk_step(&trial, &cursor, false);
  if (result < 0)
    return link >= OBSERVER_LINK_PART;
  if (result == 0 || observer_walk_interrupted(&callee, &cursor) ||
      observer_libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0)
    return true;
  return observer_link_before(observer_arch_code_address(pc), function, &whole) != OBSERVER_LINK_NONE;
}

/* Whether PLACE, found with CERTAINTY, is where the caller is; and what CALLER is then. FUNCTION is the one that is at PC, where
 * that IS_KNOWN. */
static bool is_caller(struct walk *walk, const struct return_place *place, struct code_range function, bool is_known,
                      uint64_t pc, enum certainty certainty, struct observer_caller *caller) {
  struct code_range whole;
  uint64_t target;
  *caller = (struct observer_caller){observer_arch_code_address(place->return_address.value), place->sp,
                                     place->frame_pointer.value, place->frame_pointer.is_known};
  enum observer_call_kind kind = call_before(caller->return_address, &target);
  if (kind == OBSERVER_CALL_NONE || certainty == CERTAINTY_FULL)
    return kind != OBSERVER_CALL_NONE;
  enum observer_link link = OBSERVER_LINK_NONE;
  if (is_known)
    link = observer_link_before(caller->return_address, function, &whole);
  else if (may_return_to(walk, caller->return_address, pc))
    link = kind == OBSERVER_CALL_DIRECT ? OBSERVER_LINK_CERTAIN : OBSERVER_LINK_PERHAPS;
  return link != OBSERVER_LINK_NONE && outer_frame_fits(walk, caller, link);
}

/* What the code says of the caller. */
enum finding { FINDING_NONE = 0, FINDING_CALLER, FINDING_CONTRADICTION };

/* Finds the caller by the code around PC alone: what it does from the function's beginning on, and up to its return. Where both
 * are found they must agree; where one is, the call that led here must be one that can have, and the caller's, too. */
static enum finding find_by_code(struct walk *walk, uint64_t pc, bool interrupted, const struct frame_registers *registers,
                                 struct observer_caller *caller) {
  struct code_range function;
  struct return_place from_start = {0}, ahead = {0};
  enum certainty certainty = CERTAINTY_LOW;
  bool is_known = observer_function_around(interrupted ? pc : pc - 1, &function);
  if (!is_known && !observer_walk_between(pc, &function))
    function = (struct code_range){pc > FUNCTION_BYTES_MAX ? pc - FUNCTION_BYTES_MAX : 0, pc + FUNCTION_BYTES_MAX, false};
  bool starts = is_known && find_from_start(walk, function, pc, interrupted, registers, &from_start, &certainty);
  bool returns = observer_return_path(walk, function, is_known, pc, registers, &ahead) && ahead.return_address.is_known;
  if (!starts && !returns)
    return FINDING_NONE;
  if (starts && returns && from_start.sp == ahead.sp && from_start.return_address.value == ahead.return_address.value) {
    certainty = CERTAINTY_FULL;
    if (!from_start.frame_pointer.is_known)
      from_start.frame_pointer = ahead.frame_pointer;
  } else if (starts && returns && certainty != CERTAINTY_FULL) {
    /* One of them went on behind a call that does not return. */
    if (ahead.is_straight)
      return FINDING_CONTRADICTION;
    struct observer_caller other;
    bool fits = is_caller(walk, &from_start, function, is_known, pc, CERTAINTY_FAIR, caller);
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
  /* Where nothing tells what belongs to the function, a call of it may still. */
  return fits ? FINDING_CALLER : is_known ? FINDING_CONTRADICTION : FINDING_NONE;
}

/* How far above the stack pointer a return address is looked for, and how many functions are gone through for that. */
enum { SEARCHED_STACK_BYTES = 16 << 10, CANDIDATES_MAX = 16 };

/* Whether the code of the function that begins at FUNCTION, on all its ways to PC, has the return address at AT; and what
 * CALLER is then. */
static bool returns_from(struct walk *walk, uint64_t function, uint64_t pc, bool interrupted, uint64_t at,
                         const struct frame_registers *registers, struct observer_caller *caller) {
  /* Where the function ends is not known: its ways do not leave it. */
  struct code_range range = {function, pc + FUNCTION_BYTES_MAX / 4, false};
  struct return_place place;
  enum certainty certainty = CERTAINTY_LOW;
  if (!may_contain(walk, function, pc) ||
      !find_from_start(walk, range, pc, interrupted, registers, &place, &certainty) || place.sp != at + sizeof at)
    return false;
  caller->sp = place.sp;
  caller->frame_pointer = place.frame_pointer.value;
  caller->has_frame_pointer = place.frame_pointer.is_known;
  return true;
}

/* Finds the caller by a call: somewhere above the stack pointer is the return address of a direct one, and the called function,
 * gone through from its beginning to PC, has it just there. On architectures whose calls put the return address on the
 * stack. */
static bool find_by_call(struct walk *walk, uint64_t pc, bool interrupted, const struct frame_registers *registers,
                         struct observer_caller *caller) {
  const struct observer_copy *copy = walk->copy;
  uint64_t sp = registers->sp.value;
  if (observer_code_entry_bytes() == 0 || sp < copy->stack_start)
    return false;
  uint64_t end = copy->stack_start + copy->stack_bytes;
  if (end - sp > SEARCHED_STACK_BYTES)
    end = sp + SEARCHED_STACK_BYTES;
  int candidates = 0;
  for (uint64_t at = sp; at + 8 <= end && candidates < CANDIDATES_MAX; at += 8) {
    uint64_t target;
    if (!observer_walk_word(walk, at, &caller->return_address) ||
        call_before(caller->return_address, &target) != OBSERVER_CALL_DIRECT)
      continue;
    uint64_t behind = behind_stub(target);
    if (!may_contain(walk, target, pc) && !may_contain(walk, behind, pc))
      continue;
    candidates++;
    if (returns_from(walk, target, pc, interrupted, at, registers, caller) ||
        (behind != target && returns_from(walk, behind, pc, interrupted, at, registers, caller)))
      return true;
  }
  return false;
}

bool observer_undescribed_returned_to(uint64_t address) {
  uint64_t target;
  return call_before(address, &target) != OBSERVER_CALL_NONE;
}

static bool find_caller(struct walk *walk, unw_cursor_t *cursor, uint64_t pc, bool interrupted, bool trust_frame_pointer,
                        struct observer_caller *caller) {
  unw_word_t sp, frame_pointer = 0, link = 0;
  if (observer_libunwind.get_reg(cursor, UNW_REG_SP, &sp) != 0)
    return false;
  bool has_frame_pointer =
      trust_frame_pointer && observer_libunwind.get_reg(cursor, observer_arch_frame_pointer(), &frame_pointer) == 0;
  struct frame_registers registers = {.sp = {true, sp}, .frame_pointer = {has_frame_pointer, frame_pointer}};
  if (interrupted && observer_code_return_register() != CODE_NO_REGISTER &&
      observer_libunwind.get_reg(cursor, observer_code_return_register(), &link) == 0)
    registers.link = (struct known_word){true, link};
  enum finding finding = find_by_code(walk, pc, interrupted, &registers, caller);
  if (finding != FINDING_NONE)
    return finding == FINDING_CALLER;
  if (find_by_call(walk, pc, interrupted, &registers, caller))
    return true;
  if (!has_frame_pointer) {
    walk->missing = observer_arch_frame_pointer();
    return false;
  }
  if (frame_pointer % 8 != 0 || frame_pointer < sp || frame_pointer - sp > FRAME_BYTES_MAX)
    return false;
  if (!observer_walk_word(walk, frame_pointer, &caller->frame_pointer) ||
      !observer_walk_word(walk, frame_pointer + 8, &caller->return_address))
    return false;
  caller->return_address = observer_arch_code_address(caller->return_address);
  caller->sp = frame_pointer + 16;
  caller->has_frame_pointer = true;
  if (caller->return_address == 0)
    return caller->frame_pointer == 0;
  if (!may_return_to(walk, caller->return_address, pc))
    return false;
  uint64_t target, between;
  bool is_its_own = call_before(caller->return_address, &target) == OBSERVER_CALL_DIRECT &&
                    keeps_frame_pointer_at(walk, target, pc);
  for (uint64_t at = sp; at < frame_pointer && !is_its_own; at += 8)
    if (observer_walk_word(walk, at, &between) && may_return_to(walk, observer_arch_code_address(between), pc))
      return false;
  return true;
}

bool observer_undescribed_caller(struct walk *walk, unw_cursor_t *cursor, uint64_t pc, bool interrupted,
                                 bool trust_frame_pointer, struct observer_caller *caller) {
  uint8_t code;
  /* libunwind's guess has read what a frame pointer would have led to. */
  walk->beyond_copy = walk->unreadable = false;
  walk->missing = -1;
  bool is_found = find_caller(walk, cursor, pc, interrupted, trust_frame_pointer, caller);
  /* Nor does it matter what is not at the end of ways that were tried. */
  walk->unreadable = !observer_walk_read(pc, &code, sizeof code);
  return is_found;
}

#endif
