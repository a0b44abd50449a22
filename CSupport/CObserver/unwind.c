#include "observer_unwind.h"

#include "frame_pointer.h"
#include "frame_walk.h"
#include "observer_arch.h"
#include "observer_clock.h"
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

static enum observer_stack_end why_it_stopped(const struct walk *walk) {
  if (walk->beyond_copy)
    return OBSERVER_END_COPY;
  if (walk->unreadable)
    return OBSERVER_END_UNREADABLE;
  if (walk->missing >= 0)
    return OBSERVER_END_NO_REGISTER;
  return walk->no_module ? OBSERVER_END_NO_MODULE : OBSERVER_END_NO_UNWIND_INFO;
}

void observer_unwind(const struct observer_copy *copy, struct observer_stack *stack) {
  uint64_t began = observer_clock_ns();
  struct walk walk = {.copy = copy, .registers = copy->registers};
  unw_cursor_t cursor;
  stack->count = 0;
  stack->end = OBSERVER_END_FAILED;
  if (!observer_walk_begin(&walk, &cursor))
    return;
  enum observer_frame_kind kind = OBSERVER_PROGRAM_COUNTER;
  uint64_t last_sp = 0;
  enum trust trust = TRUST_ALL;
  uint64_t returns_to = 0; /* the return address whose call CURSOR is at; 0: CURSOR is where it says */
  for (;;) {
    unw_word_t pc = 0, sp = 0;
    if (observer_libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 ||
        observer_libunwind.get_reg(&cursor, UNW_REG_SP, &sp) != 0)
      break;
    pc = observer_arch_code_address(pc);
    if (pc == 0) {
      stack->end = OBSERVER_END_OUTERMOST;
      break;
    }
    if (returns_to != 0)
      pc = returns_to;
    returns_to = 0;
    struct observer_module module;
    bool in_module = observer_module_find(pc, &module);
    if (!in_module && kind == OBSERVER_RETURN_ADDRESS && !observer_undescribed_returned_to(pc)) {
      stack->end = OBSERVER_END_NO_MODULE;
      break;
    }
    if (stack->count == OBSERVER_FRAMES_MAX) {
      stack->end = OBSERVER_END_FRAME_LIMIT;
      break;
    }
    if (stack->count > 1 && sp <= last_sp && kind == OBSERVER_RETURN_ADDRESS) {
      stack->end = OBSERVER_END_NO_PROGRESS;
      break;
    }
    last_sp = sp;
    stack->frames[stack->count++] = (struct observer_frame){pc, kind};
    unw_cursor_t before = cursor;
    bool interrupted = kind == OBSERVER_PROGRAM_COUNTER;
    int result = observer_walk_step(&walk, &cursor, interrupted);
    int frame_pointer = observer_arch_frame_pointer();
    uint64_t record;
    if (result < 0 && walk.missing == frame_pointer) {
      if (observer_find_frame_pointer(&walk, &before, interrupted, &record)) {
        walk.registers.values[frame_pointer] = record;
        walk.registers.known |= UINT64_C(1) << frame_pointer;
      }
      cursor = before;
      result = observer_walk_step(&walk, &cursor, interrupted);
    }
    if ((walk.no_module || walk.no_info) && !observer_walk_interrupted(&before, &cursor)) {
      /* libunwind would guess. */
      struct observer_caller caller;
      if (!observer_undescribed_caller(&walk, &before, interrupted, trust == TRUST_ALL, &caller)) {
        stack->end = why_it_stopped(&walk);
        /* An address in no module is believed where it leads on only. */
        stack->count -= !in_module && kind == OBSERVER_RETURN_ADDRESS;
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
      stack->frames[stack->count - 1].kind = kind = OBSERVER_PROGRAM_COUNTER;
      trust = TRUST_ALL;
    } else {
      trust = trust_after(&walk, &before, &cursor, trust, stack->count);
    }
    if (trust == TRUST_NOTHING) {
      stack->end = OBSERVER_END_FAILED;
      break;
    }
  }
  stack->unwind_ns = observer_clock_ns() - began;
}

#else

void observer_unwind(const struct observer_copy *copy, struct observer_stack *stack) {
  (void)copy;
  stack->count = 0;
  stack->end = OBSERVER_END_FAILED;
}

#endif
