#include "caller.h"

#include "frame_walk.h"
#include "observer_context.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <string.h>

/* Frames that are gone through from the innermost one on. */
enum { DEPTH_MAX = 24 };

void observer_caller_learn(const struct caller_registers *known, const struct frame_facts *facts, uint64_t sp,
                           struct fact_values *values) {
  observer_fact_learn(values, facts->state.registers[CODE_SP], sp);
  for (int number = 0; number < CODE_REGISTERS; number++)
    if (number != CODE_SP && (known->known >> number & 1))
      observer_fact_learn(values, facts->state.registers[number], known->values[number]);
}

/* Goes from the registers KNOWN of a frame, whose stack pointer is SP and whose function is FUNCTION and at PC, to those of
 * its caller, whose stack pointer is CALLER_SP. */
static void go_out(struct walk *walk, struct caller_registers *known, struct code_range function, uint64_t pc,
                   bool interrupted, uint64_t sp, uint64_t caller_sp) {
  static struct frame_facts rooms[OBSERVER_CONTEXTS_MAX];
  struct frame_facts *facts = &rooms[observer_context];
  struct fact_values values = {.known = 0};
  struct code_range none = {0};
  uint64_t number_of_base;
  bool has_facts = observer_frame_facts(function, none, pc, interrupted, false, facts);
  if (has_facts) {
    observer_caller_learn(known, facts, sp, &values);
    observer_fact_learn(&values, (struct fact_value){1 + CODE_SP, 0, 0}, caller_sp - observer_code_entry_bytes());
    observer_fact_conclude(walk, facts, &values);
  }
  known->known = 0;
  for (int number = 0; has_facts && !values.contradicted && number < CODE_REGISTERS; number++)
    if (number != CODE_SP &&
        observer_fact_value(&values, (struct fact_value){(uint8_t)(1 + number), 0, 0}, &number_of_base)) {
      known->values[number] = number_of_base;
      known->known |= UINT64_C(1) << number;
    }
}

void observer_caller_registers(struct walk *walk, unw_cursor_t *cursor, bool *interrupted, struct caller_registers *found) {
  unw_cursor_t here;
  unw_word_t end_sp = 0, end_pc = 0, sp = 0, pc = 0, value;
  memset(found, 0, sizeof *found);
  if (observer_libunwind.get_reg(cursor, UNW_REG_SP, &end_sp) != 0 ||
      observer_libunwind.get_reg(cursor, UNW_REG_IP, &end_pc) != 0 || !observer_walk_resume(walk, &here))
    return;
  /* A thread in a system call gives what it passed. */
  bool in_call = false;
  for (int number = 0; number < CODE_REGISTERS; number++)
    if (number != CODE_SP && observer_arch_unwind_register(&walk->registers, number, &found->values[number])) {
      found->known |= UINT64_C(1) << number;
      in_call = true;
    }
  bool stopped = !in_call;
  for (int depth = 0; depth < DEPTH_MAX; depth++) {
    unw_cursor_t callee = here;
    struct code_range function;
    if (observer_libunwind.get_reg(&here, UNW_REG_SP, &sp) != 0 ||
        observer_libunwind.get_reg(&here, UNW_REG_IP, &pc) != 0)
      break;
    if (sp == end_sp && pc == end_pc) {
      if (depth == 0)
        *interrupted = stopped;
      return;
    }
    uint64_t callee_sp = sp, callee_pc = pc;
    bool described = observer_walk_frame_function(&callee, &function);
    if (observer_walk_step(walk, &here, stopped) <= 0 || observer_libunwind.get_reg(&here, UNW_REG_SP, &sp) != 0)
      break;
    bool signal = observer_walk_interrupted(&callee, &here);
    if (signal || !described)
      found->known = 0;
    else
      go_out(walk, found, function, callee_pc, stopped, callee_sp, sp);
    stopped = signal;
    /* Between a call and the function that a jump led on to, arguments may have changed. */
    if (!described || observer_libunwind.get_reg(&here, UNW_REG_IP, &pc) != 0 ||
        !frame_called(observer_walk_read, observer_arch_code_address(pc), function.start))
      found->known &= ~observer_code_volatile_registers();
    /* What unwind tables tell to be saved. */
    for (int number = 0; number < CODE_REGISTERS; number++)
      if (number != CODE_SP && !(observer_code_volatile_registers() >> number & 1) && !(found->known >> number & 1) &&
          observer_libunwind.get_reg(&here, number, &value) == 0) {
        found->values[number] = value;
        found->known |= UINT64_C(1) << number;
      }
  }
  found->known = 0;
}

#endif
