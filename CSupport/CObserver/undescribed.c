#include "undescribed.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "frame_facts.h"
#include "observer_arch.h"

/* Farther apart a function's beginning and its code are not taken to be, nor its stack pointer and its frame pointer. */
enum { FUNCTION_BYTES_MAX = 64 << 10, FRAME_BYTES_MAX = 1 << 20 };

/* So much of a function is looked through for its end. */
enum { SEARCHED_BYTES_MAX = 4 << 10, PIECE_BYTES = 256, OVERLAP_BYTES = 8 };

/* What kind of call ends at RETURN_ADDRESS, in any memory that can be read, and where a direct one leads to. */
static enum observer_call_kind call_before(uint64_t return_address, uint64_t *target) {
  uint8_t code[OBSERVER_CALL_BYTES];
  if (return_address < sizeof code || !observer_walk_read(return_address - sizeof code, code, sizeof code))
    return OBSERVER_CALL_NONE;
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

/* How far above the stack pointer a return address is looked for, and how many functions are gone through for that. */
enum { SEARCHED_STACK_BYTES = 16 << 10, CANDIDATES_MAX = 16 };

/* Whether the code of the function that begins at FUNCTION, on all its ways to PC, has the return address at AT; and what
 * CALLER is then. */
static bool returns_from(struct walk *walk, uint64_t function, uint64_t pc, bool interrupted, uint64_t sp, uint64_t at,
                         uint64_t frame_pointer, bool has_frame_pointer, struct observer_caller *caller) {
  static struct frame_facts facts;
  /* Where the function ends is not known: its ways do not leave it. */
  struct code_range range = {function, pc + FUNCTION_BYTES_MAX / 4, false}, cold = {0, 0, false};
  if (!may_contain(walk, function, pc) || !observer_frame_facts(range, cold, pc, interrupted, false, &facts))
    return false;
  struct fact_value here = facts.state.registers[CODE_SP], pointer = facts.state.registers[CODE_FRAME_POINTER];
  uint64_t entry = sp - (uint64_t)(int64_t)here.offset;
  if (here.base != 1 + CODE_SP || here.shift != 0 || entry + observer_code_entry_bytes() != at + sizeof at)
    return false;
  caller->sp = at + sizeof at;
  caller->frame_pointer = frame_pointer;
  caller->has_frame_pointer = has_frame_pointer && pointer.base == 1 + CODE_FRAME_POINTER && pointer.offset == 0;
  for (int index = 0; index < facts.state.slot_count && !caller->has_frame_pointer; index++) {
    const struct fact_slot *slot = &facts.state.slots[index];
    if (slot->where.base == 1 + CODE_SP && slot->where.shift == 0 && slot->what.base == 1 + CODE_FRAME_POINTER &&
        slot->what.shift == 0 && slot->what.offset == 0)
      caller->has_frame_pointer =
          observer_walk_word(walk, entry + (uint64_t)(int64_t)slot->where.offset, &caller->frame_pointer);
  }
  return true;
}

/* Finds the caller by the code: somewhere above the stack pointer is the return address of a direct call, and the called
 * function, gone through from its beginning to PC, has it just there. On architectures whose calls put the return address on
 * the stack. */
static bool find_by_code(struct walk *walk, uint64_t pc, bool interrupted, uint64_t sp, uint64_t frame_pointer,
                         bool has_frame_pointer, struct observer_caller *caller) {
  const struct observer_copy *copy = walk->copy;
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
    if (returns_from(walk, target, pc, interrupted, sp, at, frame_pointer, has_frame_pointer, caller) ||
        (behind != target &&
         returns_from(walk, behind, pc, interrupted, sp, at, frame_pointer, has_frame_pointer, caller)))
      return true;
  }
  return false;
}

/* Whether the code at PC is about to return to the caller without a frame; then that is CALLER. */
static bool is_about_to_return(struct walk *walk, uint64_t pc, uint64_t sp, uint64_t frame_pointer,
                               bool has_frame_pointer, struct observer_caller *caller) {
  uint8_t code[OBSERVER_EPILOGUE_BYTES];
  struct observer_unframed place;
  if (!observer_walk_read(pc, code, sizeof code) || !observer_arch_epilogue(code, &place))
    return false;
  if (place.return_register >= 0
          ? !observer_arch_unwind_register(&walk->registers, place.return_register, &caller->return_address)
          : !observer_walk_word(walk, sp + place.return_offset, &caller->return_address))
    return false;
  caller->return_address = observer_arch_code_address(caller->return_address);
  caller->sp = sp + place.frame_bytes;
  caller->frame_pointer = frame_pointer;
  caller->has_frame_pointer = has_frame_pointer;
  if (place.saves_frame_pointer)
    caller->has_frame_pointer = observer_walk_word(walk, sp, &caller->frame_pointer);
  return may_return_to(walk, caller->return_address, pc);
}

bool observer_undescribed_returned_to(uint64_t address) {
  uint64_t target;
  return call_before(address, &target) != OBSERVER_CALL_NONE;
}

bool observer_undescribed_caller(struct walk *walk, unw_cursor_t *cursor, bool interrupted, bool trust_frame_pointer,
                                 struct observer_caller *caller) {
  unw_word_t pc, sp, frame_pointer = 0;
  if (observer_libunwind.get_reg(cursor, UNW_REG_IP, &pc) != 0 ||
      observer_libunwind.get_reg(cursor, UNW_REG_SP, &sp) != 0)
    return false;
  pc = observer_arch_code_address(pc);
  bool has_frame_pointer =
      trust_frame_pointer && observer_libunwind.get_reg(cursor, observer_arch_frame_pointer(), &frame_pointer) == 0;
  if ((interrupted && is_about_to_return(walk, pc, sp, frame_pointer, has_frame_pointer, caller)) ||
      find_by_code(walk, pc, interrupted, sp, frame_pointer, has_frame_pointer, caller))
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

#endif
