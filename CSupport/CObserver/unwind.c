#include "observer_unwind.h"

#include "frame_facts.h"
#include "frame_pointer.h"
#include "frame_walk.h"
#include "function_start.h"
#include "observer_arch.h"
#include "observer_clock.h"
#include "observer_context.h"
#include "observer_module.h"
#include "undescribed.h"
#include "unwind_walk.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* The compiler's unwinder hands an exception over by writing what the function that handles it had saved over what its
 * own caller had (libgcc, uw_install_context): registers one by one, then the return address. A thread that is
 * interrupted just then seems to be in a mixture of both. Unwinders are known by their saving the register that results
 * and exceptions are passed in, which no other function does, and are innermost but for what they call. */
enum { HANDING_OVER_DEPTH = 3 };

/* What is thought of the frame pointer on the way outwards. */
enum trust {
  TRUST_ALL = 0,
  TRUST_NO_FRAME_POINTER = 1, /* it may be that of the function that handles an exception */
  TRUST_NOTHING = 2,          /* it is; or the return address is */
};

/* Where in the copied stack CURSOR's frame finds register NUMBER; 0: not there. */
static uint64_t saved_at(struct walk *walk, unw_cursor_t *cursor, unw_regnum_t number) {
  unw_word_t value;
  walk->last_read = 0;
  return observer_libunwind.get_reg(cursor, number, &value) == 0 ? walk->last_read : 0;
}

/* What is thought of CURSOR's frame, to which a step led from CALLEE's, the frame number DEPTH from 1, which was
 * thought of as BEFORE says. */
static enum trust trust_after(struct walk *walk, unw_cursor_t *callee, unw_cursor_t *cursor, enum trust before,
                              uint32_t depth) {
  unw_word_t sp, frame_pointer, caller_sp, return_address;
  unw_proc_info_t function;
  int number = observer_arch_frame_pointer();
  bool unwinder = before == TRUST_ALL && depth <= HANDING_OVER_DEPTH &&
                  saved_at(walk, cursor, observer_arch_result_register()) != 0;
  if (before == TRUST_ALL && !unwinder)
    return TRUST_ALL;
  if (observer_libunwind.get_reg(callee, UNW_REG_SP, &sp) != 0 ||
      observer_libunwind.get_reg(callee, number, &frame_pointer) != 0 ||
      observer_libunwind.get_reg(cursor, UNW_REG_SP, &caller_sp) != 0 ||
      observer_libunwind.get_reg(cursor, UNW_REG_IP, &return_address) != 0 ||
      observer_libunwind.get_proc_info(callee, &function) != 0)
    return TRUST_NOTHING;
  return_address = observer_arch_code_address(return_address);
  if (unwinder)
    return frame_called(observer_walk_read, return_address, function.start_ip) ? TRUST_NO_FRAME_POINTER : TRUST_NOTHING;
  if (frame_pointer >= sp && frame_pointer < caller_sp)
    return frame_pointer_fits(observer_walk_read, function.start_ip, sp, frame_pointer, return_address) ? TRUST_ALL
                                                                                                  : TRUST_NOTHING;
  uint64_t at = saved_at(walk, cursor, number);
  return at >= sp && at < caller_sp ? TRUST_ALL : TRUST_NO_FRAME_POINTER;
}

/* Finds the frame pointer of CURSOR's frame, which is in a call, by how far its function keeps it from the stack pointer. */
static bool frame_pointer_by_code(unw_cursor_t *cursor, uint64_t *frame_pointer) {
  static struct frame_facts rooms[OBSERVER_CONTEXTS_MAX];
  struct frame_facts *facts = &rooms[observer_context];
  struct code_range function, none = {0};
  unw_word_t sp, pc;
  if (observer_libunwind.get_reg(cursor, UNW_REG_SP, &sp) != 0 ||
      observer_libunwind.get_reg(cursor, UNW_REG_IP, &pc) != 0 || !observer_walk_frame_function(cursor, &function) ||
      !observer_frame_facts(function, none, observer_arch_code_address(pc), false, false, facts))
    return false;
  struct fact_value at_sp = facts->state.registers[CODE_SP], pointer = facts->state.registers[CODE_FRAME_POINTER];
  *frame_pointer = sp + (uint64_t)((int64_t)pointer.offset - at_sp.offset);
  return at_sp.base != 0 && at_sp.base == pointer.base && at_sp.shift == 0 && pointer.shift == 0;
}

static enum observer_stack_end why_it_stopped(const struct walk *walk) {
  if (walk->beyond_copy)
    return OBSERVER_END_COPY;
  if (walk->unreadable)
    return OBSERVER_END_UNREADABLE;
  if (walk->missing >= 0)
    return OBSERVER_END_NO_REGISTER;
  return walk->no_module ? OBSERVER_END_NO_MODULE : OBSERVER_END_NO_UNWIND_INFO;
}

/* More frames than that are not gone through. */
enum { WALKED_MAX = 1 << 16 };

/* The frame number NUMBER of all, counted from 0, is at this place: when there are too many, the outer half goes round. */
static uint32_t room_for(uint32_t number) {
  return number < OBSERVER_FRAMES_INNER ? number
                                        : OBSERVER_FRAMES_INNER + (number - OBSERVER_FRAMES_INNER) % OBSERVER_FRAMES_INNER;
}

static void reverse(struct observer_stack *stack, uint32_t from, uint32_t to) {
  for (; from + 1 < to; from++, to--) {
    struct observer_frame frame = stack->frames[from];
    stack->frames[from] = stack->frames[to - 1];
    stack->frames[to - 1] = frame;
    if (stack->places) {
      uint64_t place = stack->places[from];
      stack->places[from] = stack->places[to - 1];
      stack->places[to - 1] = place;
    }
  }
}

/* Puts the frames of STACK, of which TOTAL were found, in order; with LESS, but for the last one of these. */
static void put_in_order(struct observer_stack *stack, uint32_t total, bool less) {
  stack->count = total;
  if (total > OBSERVER_FRAMES_MAX) {
    stack->count = OBSERVER_FRAMES_MAX;
    stack->left_out = total - OBSERVER_FRAMES_MAX;
    uint32_t first = room_for(total);
    reverse(stack, OBSERVER_FRAMES_INNER, first);
    reverse(stack, first, OBSERVER_FRAMES_MAX);
    reverse(stack, OBSERVER_FRAMES_INNER, OBSERVER_FRAMES_MAX);
  }
  stack->count -= less;
}

/* How far the address of FRAME is from the beginning of its function. */
static uint32_t offset_in_function(const struct observer_frame *frame) {
  struct code_range function;
  uint64_t address = frame->address - (frame->kind == OBSERVER_RETURN_ADDRESS);
  if ((!observer_walk_function(address, &function) && !observer_function_around(address, &function)) ||
      frame->address - function.start >= OBSERVER_NO_OFFSET)
    return OBSERVER_NO_OFFSET;
  return (uint32_t)(frame->address - function.start);
}

/* Where on the stack the return address lies that CURSOR's frame, whose stack pointer is SP, was found by; 0: not known. */
static uint64_t place_of(struct walk *walk, unw_cursor_t *cursor, uint64_t sp) {
  int number = observer_code_return_register();
  return number == CODE_NO_REGISTER ? sp - sizeof sp : saved_at(walk, cursor, number);
}

void observer_unwind(const struct observer_copy *copy, struct observer_stack *stack) {
  uint64_t began = observer_clock_ns();
  struct walk walk = {.copy = copy, .registers = copy->registers};
  unw_cursor_t cursor;
  stack->count = stack->left_out = stack->joined_from = 0;
  stack->last_sp = stack->last_frame_pointer = 0;
  stack->end = OBSERVER_END_FAILED;
  if (!observer_walk_begin(&walk, &cursor))
    return;
  enum observer_frame_kind kind = OBSERVER_PROGRAM_COUNTER;
  enum trust trust = TRUST_ALL;
  uint32_t total = 0;
  bool less = false; /* the last frame was none */
  uint64_t returns_to = 0; /* the return address whose call CURSOR is at; 0: CURSOR is where it says */
  for (;;) {
    unw_word_t pc = 0, sp = 0, pointer = 0;
    if (observer_libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 ||
        observer_libunwind.get_reg(&cursor, UNW_REG_SP, &sp) != 0)
      break;
    pc = observer_arch_code_address(pc);
    if (pc == 0) {
      stack->end = OBSERVER_END_OUTERMOST;
      break;
    }
    bool is_resumed = returns_to != 0;
    if (is_resumed)
      pc = returns_to;
    returns_to = 0;
    struct observer_module module;
    bool in_module = observer_module_find(pc, &module);
    if (!in_module && kind == OBSERVER_RETURN_ADDRESS && !observer_undescribed_returned_to(pc)) {
      stack->end = OBSERVER_END_NO_MODULE;
      break;
    }
    if (total == WALKED_MAX) {
      stack->end = OBSERVER_END_FRAME_LIMIT;
      break;
    }
    if (total > 1 && sp <= stack->last_sp && kind == OBSERVER_RETURN_ADDRESS) {
      stack->end = OBSERVER_END_NO_PROGRESS;
      break;
    }
    int frame_pointer = observer_arch_frame_pointer();
    bool has_pointer = trust == TRUST_ALL && observer_libunwind.get_reg(&cursor, frame_pointer, &pointer) == 0;
    uint64_t inner_sp = stack->last_sp, inner_pointer = stack->last_frame_pointer;
    stack->last_sp = sp;
    stack->last_frame_pointer = has_pointer ? pointer : 0;
    uint32_t room = room_for(total++);
    struct observer_frame *frame = &stack->frames[room];
    *frame = (struct observer_frame){pc, kind, OBSERVER_NO_OFFSET};
    if (stack->places)
      stack->places[room] = kind == OBSERVER_PROGRAM_COUNTER ? 0 : place_of(&walk, &cursor, sp);
    unw_cursor_t before = cursor;
    bool interrupted = kind == OBSERVER_PROGRAM_COUNTER;
    int result = observer_walk_step(&walk, &cursor, interrupted);
    uint64_t record;
    if (result < 0 && walk.missing == frame_pointer) {
      if (observer_find_frame_pointer(&walk, &before, interrupted, &record)) {
        walk.registers.values[frame_pointer] = record;
        walk.registers.known |= UINT64_C(1) << frame_pointer;
      }
      cursor = before;
      result = observer_walk_step(&walk, &cursor, interrupted);
    }
    if (in_module)
      frame->offset = offset_in_function(frame);
    if ((walk.no_module || walk.no_info) && !observer_walk_interrupted(&before, &cursor)) {
      /* libunwind would guess. */
      struct observer_caller caller;
      if (!observer_undescribed_caller(&walk, &before, pc, interrupted, trust == TRUST_ALL, &caller)) {
        stack->end = why_it_stopped(&walk);
        /* An address in no module is believed where it leads on only. */
        if (!in_module && kind == OBSERVER_RETURN_ADDRESS) {
          less = true;
          stack->last_sp = inner_sp;
          stack->last_frame_pointer = inner_pointer;
        }
        break;
      }
      if (caller.return_address == 0) {
        stack->end = OBSERVER_END_OUTERMOST;
        break;
      }
      /* What is described is looked up at the call: after one that does not return there is another function. */
      observer_arch_set_frame(&walk.registers, caller.return_address - 1, caller.sp, caller.frame_pointer,
                              caller.has_frame_pointer);
      if (!observer_walk_resume(&walk, &cursor))
        break;
      returns_to = caller.return_address;
      kind = OBSERVER_RETURN_ADDRESS;
      continue;
    }
    if (result <= 0) {
      stack->end = result == 0 ? OBSERVER_END_OUTERMOST : why_it_stopped(&walk);
      break;
    }
    kind = OBSERVER_RETURN_ADDRESS;
    if (observer_walk_interrupted(&before, &cursor)) {
      /* Nor is the trampoline in between returned to after a call. */
      frame->kind = kind = OBSERVER_PROGRAM_COUNTER;
      trust = TRUST_ALL;
    } else {
      trust = trust_after(&walk, &before, &cursor, trust, total);
    }
    if (trust == TRUST_NOTHING) {
      stack->end = OBSERVER_END_FAILED;
      break;
    }
    if (trust == TRUST_NO_FRAME_POINTER && frame_pointer_by_code(&cursor, &record) &&
        observer_libunwind.get_reg(&cursor, UNW_REG_IP, &pc) == 0 &&
        observer_libunwind.get_reg(&cursor, UNW_REG_SP, &sp) == 0) {
      returns_to = observer_arch_code_address(pc);
      observer_arch_set_frame(&walk.registers, returns_to - 1, sp, record, true);
      if (!observer_walk_resume(&walk, &cursor))
        break;
      trust = TRUST_ALL;
    }
  }
  put_in_order(stack, total, less);
  stack->unwind_ns = observer_clock_ns() - began;
}

#else

void observer_unwind(const struct observer_copy *copy, struct observer_stack *stack) {
  (void)copy;
  stack->count = stack->left_out = stack->joined_from = 0;
  stack->end = OBSERVER_END_FAILED;
}

#endif
