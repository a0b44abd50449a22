#include "caller_registers.h"

#include "dataflow/solve.h"
#include "prologue.h"

#include <string.h>

enum { DEPTH_MAX = 24 };

struct caller_registers_room {
  struct frame_facts facts;
};

size_t cunwind_callers_bytes(void) { return sizeof(struct caller_registers_room); }

static bool knows(const struct caller_registers *known, int number) { return known->known >> number & 1; }

static void add(struct caller_registers *known, int number, uint64_t value) {
  known->values[number] = value;
  known->known |= UINT64_C(1) << number;
}

void cunwind_caller_learn(const struct unwind_architecture *architecture, const struct caller_registers *known,
                          const struct frame_facts *facts, uint64_t sp, struct symbol_values *values) {
  cunwind_learn(values, facts->state.registers[architecture->sp], sp);
  for (int number = 0; number < architecture->general_registers; number++)
    if (number != architecture->sp && knows(known, number))
      cunwind_learn(values, facts->state.registers[number], known->values[number]);
}

/* Changes KNOWN from the registers of FUNCTION's frame at PC to the registers at FUNCTION's entry. */
static void go_out(struct walk *walk, struct caller_registers *known, struct code_range function, uint64_t pc,
                   bool interrupted, uint64_t sp, uint64_t caller_sp) {
  const struct unwind_architecture *architecture = walk->unwinder->architecture;
  struct frame_facts *facts = &walk->unwinder->callers->facts;
  struct symbol_values values = {.known = 0};
  struct code_range none = {0};
  uint64_t at_entry;
  bool has_facts = cunwind_frame_facts(walk->unwinder, function, none, pc, interrupted, false, facts);
  if (has_facts) {
    cunwind_caller_learn(architecture, known, facts, sp, &values);
    cunwind_learn(&values, symbolic_entry(architecture->sp), caller_sp - architecture->entry_bytes);
    cunwind_conclude(walk, facts, &values);
  }
  known->known = 0;
  for (int number = 0; has_facts && !values.contradicted && number < architecture->general_registers; number++)
    if (number != architecture->sp && cunwind_value(&values, symbolic_entry(number), &at_entry))
      add(known, number, at_entry);
}

void cunwind_caller_registers(struct cursor *cursor, bool *interrupted, struct caller_registers *found) {
  struct walk *walk = cursor->walk;
  struct unwinder *unwinder = walk->unwinder;
  const struct unwind_architecture *architecture = unwinder->architecture;
  struct cursor here;
  uint64_t value;
  memset(found, 0, sizeof *found);
  if (!cunwind_cursor_resume(walk, &here))
    return;
  /* A thread in a system call still has the call's arguments in its registers. */
  bool in_call = false;
  for (int number = 0; number < architecture->general_registers; number++)
    if (number != architecture->sp && cunwind_register(architecture, &walk->registers, number, &value)) {
      add(found, number, value);
      in_call = true;
    }
  bool stopped = !in_call && here.returns_to == 0;
  for (int depth = 0; depth < DEPTH_MAX; depth++) {
    struct cursor callee = here;
    struct code_range function;
    uint64_t callee_pc = cunwind_cursor_pc(&here);
    if (here.sp == cursor->sp && callee_pc == cunwind_cursor_pc(cursor)) {
      if (depth == 0)
        *interrupted = stopped;
      return;
    }
    bool described = cunwind_cursor_function(&callee, &function);
    if (cunwind_cursor_step(&here) <= 0)
      break;
    bool signal = here.was_interrupted;
    if (signal || !described)
      found->known = 0;
    else
      go_out(walk, found, function, callee_pc, stopped, callee.sp, here.sp);
    stopped = signal;
    /* If the frame called another function, which jumped to FUNCTION, arguments might have changed before the jump. */
    uint64_t pc = cunwind_code_address(unwinder, cunwind_cursor_pc(&here));
    if (!described || !cunwind_calls(unwinder, pc, function.start))
      found->known &= ~architecture->call_clobbered;
    for (int number = 0; number < architecture->general_registers; number++)
      if (number != architecture->sp && !(architecture->call_clobbered >> number & 1) && !knows(found, number) &&
          cunwind_cursor_register(&here, number, &value))
        add(found, number, value);
  }
  found->known = 0;
}
