#include "undescribed.h"

#if defined(__x86_64__) || defined(__aarch64__)

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

/* Takes the caller from PLACE of a function whose stack pointer is SP. */
static bool take(struct walk *walk, const struct observer_unframed *place, uint64_t sp, uint64_t frame_pointer,
                 bool has_frame_pointer, struct observer_caller *caller) {
  if (place->return_register >= 0) {
    if (!observer_arch_unwind_register(&walk->registers, place->return_register, &caller->return_address))
      return false;
    caller->return_address = observer_arch_code_address(caller->return_address);
  } else if (!observer_walk_word(walk, sp + place->return_offset, &caller->return_address)) {
    return false;
  }
  caller->sp = sp + place->frame_bytes;
  caller->frame_pointer = frame_pointer;
  caller->has_frame_pointer = has_frame_pointer;
  if (!place->saves_frame_pointer)
    return true;
  caller->has_frame_pointer = observer_walk_word(walk, sp, &caller->frame_pointer);
  return caller->has_frame_pointer;
}

/* Whether PC is in the function that begins at FUNCTION, and what has run of it has made no frame in this WAY. */
static bool has_run_without_frame(struct walk *walk, uint64_t function, int way, uint64_t pc) {
  uint8_t code[OBSERVER_PROLOGUE_BYTES];
  return pc >= function && pc - function <= sizeof code && observer_walk_read(function, code, pc - function) &&
         observer_arch_is_unframed(way, code, pc - function) && may_contain(walk, function, pc);
}

/* Whether the code at PC, which is about to run, shows that there is no frame (yet or any more), and what CALLER is then. */
static bool find_unframed(struct walk *walk, uint64_t pc, uint64_t sp, uint64_t frame_pointer, bool has_frame_pointer,
                          struct observer_caller *caller) {
  uint8_t code[OBSERVER_EPILOGUE_BYTES];
  struct observer_unframed place;
  uint64_t target;
  if (observer_walk_read(pc, code, OBSERVER_EPILOGUE_BYTES) && observer_arch_epilogue(code, &place) &&
      take(walk, &place, sp, frame_pointer, has_frame_pointer, caller) &&
      may_return_to(walk, caller->return_address, pc))
    return true;
  for (int way = 0; way < OBSERVER_UNFRAMED_WAYS; way++) {
    observer_arch_unframed(way, &place);
    if (!take(walk, &place, sp, frame_pointer, has_frame_pointer, caller) ||
        call_before(caller->return_address, &target) != OBSERVER_CALL_DIRECT)
      continue;
    if (has_run_without_frame(walk, target, way, pc) || has_run_without_frame(walk, behind_stub(target), way, pc))
      return true;
  }
  return false;
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
  if (interrupted && find_unframed(walk, pc, sp, frame_pointer, has_frame_pointer, caller))
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
