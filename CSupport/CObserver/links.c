#include "links.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "exploration.h"
#include "function_start.h"
#include "observer_context.h"
#include "observer_module.h"

#include <string.h>

/* Bounds on following jumps from a function that is called to the one that is looked for. */
enum { JUMPS_DEPTH = 3, JUMPING_BYTES_MAX = 16 << 10, REMEMBERED = 256 };

/* What was found out about functions that are called, and the one that is looked for. */
static struct remembered {
  uint64_t called, function;
  enum observer_link link;
  struct code_range whole;
} rooms[OBSERVER_CONTEXTS_MAX][REMEMBERED];

void observer_links_forget(void) { memset(rooms[observer_context], 0, sizeof rooms[0]); }

/* Where ADDRESS leads if it is a linkage stub; itself otherwise. */
static uint64_t behind_stub(uint64_t address) {
  uint8_t stub[OBSERVER_PROLOGUE_BYTES];
  uint64_t slot, resolved;
  bool is_stub = observer_walk_read(address, stub, sizeof stub) && observer_arch_stub(stub, address, &slot) &&
                 observer_walk_read(slot, &resolved, sizeof resolved);
  return is_stub ? resolved : address;
}

static enum observer_link link_of_called(uint64_t called, struct code_range function, struct code_range *whole, int depth);

/* What a jump of the function at WHOLE to TARGET makes of its link to FUNCTION. */
static enum observer_link link_of_jump(uint64_t target, struct code_range function, struct code_range *whole, int depth) {
  struct code_range other = {0};
  if (target > function.start && target < function.end)
    return OBSERVER_LINK_PART;
  if (depth == 0)
    return behind_stub(target) == function.start ? OBSERVER_LINK_CERTAIN : OBSERVER_LINK_NONE;
  enum observer_link link = link_of_called(target, function, &other, depth - 1);
  if (link == OBSERVER_LINK_PART)
    *whole = other;
  return link;
}

/* Goes through the code of RANGE for jumps that leave it. Sets *ANYWHERE if there is one to where only a register knows. */
static enum observer_link link_by_jumps(struct code_range range, struct code_range function, struct code_range *whole,
                                        int depth, bool *anywhere) {
  enum observer_link best = OBSERVER_LINK_NONE;
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  if (range.end - range.start > JUMPING_BYTES_MAX)
    return OBSERVER_LINK_NONE;
  for (uint64_t address = range.start; address < range.end;) {
    size_t length = observer_code_read(address, operations, &count);
    if (length == 0) {
      *anywhere = true;
      return best;
    }
    address += length;
    for (int index = 0; index < count; index++) {
      uint64_t target = operations[index].target;
      enum code_kind kind = operations[index].kind;
      *anywhere |= kind == CODE_JUMP_ANYWHERE;
      if (kind == CODE_JUMP_SLOT && !observer_walk_read(target, &target, sizeof target))
        continue;
      if ((kind != CODE_JUMP && kind != CODE_BRANCH && kind != CODE_JUMP_SLOT) ||
          (target >= range.start && target < range.end))
        continue;
      struct code_range jumping = range;
      struct function_jumps jumps;
      if (target == function.start && observer_function_jumps(range, target, &jumps) && jumps.with_frame) {
        *whole = range;
        return OBSERVER_LINK_PART;
      }
      enum observer_link link = link_of_jump(target, function, &jumping, depth);
      if (link > best) {
        best = link;
        *whole = jumping;
      }
    }
  }
  return best;
}

static enum observer_link link_of_called(uint64_t called, struct code_range function, struct code_range *whole, int depth) {
  struct code_range range, none = {0};
  struct function_jumps jumps;
  called = behind_stub(called);
  if (called == function.start)
    return OBSERVER_LINK_CERTAIN;
  struct remembered *memory = &rooms[observer_context][(called >> 4 ^ called >> 12 ^ function.start >> 4) % REMEMBERED];
  if (memory->called == called && memory->function == function.start) {
    *whole = memory->whole;
    return memory->link;
  }
  enum observer_link link = OBSERVER_LINK_NONE;
  *whole = none;
  if (!observer_walk_function(called, &range)) {
    link = OBSERVER_LINK_PERHAPS; /* nothing tells where it ends */
  } else if (range.start == called) {
    bool anywhere = range.end - range.start > JUMPING_BYTES_MAX;
    link = link_by_jumps(range, function, whole, depth, &anywhere);
    if (link == OBSERVER_LINK_NONE && anywhere && (!observer_function_jumps(range, 0, &jumps) || jumps.anywhere))
      link = OBSERVER_LINK_PERHAPS;
  }
  *memory = (struct remembered){called, function.start, link, *whole};
  return link;
}

enum observer_link observer_link_before(uint64_t return_address, struct code_range function, struct code_range *whole) {
  uint8_t code[OBSERVER_CALL_BYTES], trampoline[OBSERVER_SIGNAL_RETURN_BYTES];
  uint64_t target = 0, slot;
  struct observer_module module;
  if (!observer_module_find(return_address, &module) ||
      !observer_walk_read(return_address - sizeof code, code, sizeof code))
    return OBSERVER_LINK_NONE;
  switch (observer_arch_call_before(code, return_address, &target)) {
  case OBSERVER_CALL_DIRECT:
    return link_of_called(target, function, whole, JUMPS_DEPTH);
  case OBSERVER_CALL_INDIRECT:
    if (observer_arch_call_slot(code, return_address, &slot) && observer_walk_read(slot, &target, sizeof target)) {
      enum observer_link link = link_of_called(target, function, whole, JUMPS_DEPTH);
      if (link != OBSERVER_LINK_NONE)
        return link;
    }
    return OBSERVER_LINK_PERHAPS; /* memory may have changed since */
  default:
    /* The kernel calls a signal's handler, as through a pointer. */
    if (observer_walk_read(return_address, trampoline, sizeof trampoline) && observer_arch_signal_return(trampoline))
      return OBSERVER_LINK_PERHAPS;
    return OBSERVER_LINK_NONE;
  }
}

/* Looks up what CURSOR's frame, which has FACTS, calls. */
static bool called_by(struct walk *walk, unw_cursor_t *cursor, const struct frame_facts *facts, uint64_t *called) {
  struct fact_values values = {.known = 0};
  struct fact_value value;
  unw_word_t word;
  unw_cursor_t caller = *cursor;
  for (int number = 0; number < CODE_REGISTERS; number++)
    if (!(observer_code_volatile_registers() >> number & 1) && observer_libunwind.get_reg(cursor, number, &word) == 0)
      observer_fact_learn(&values, facts->state.registers[number], word);
  if (observer_walk_step(walk, &caller, false) > 0 && observer_libunwind.get_reg(&caller, UNW_REG_SP, &word) == 0)
    observer_fact_learn(&values, (struct fact_value){1 + CODE_SP, 0, 0}, word - observer_code_entry_bytes());
  observer_fact_conclude(walk, facts, &values);
  const struct code_operation *call = &facts->call;
  switch (call->kind) {
  case CODE_CALL_REGISTER:
    return observer_fact_value(&values, facts->state.registers[call->from], called);
  case CODE_CALL_MEMORY:
    value = observer_fact_moved(facts->state.registers[call->from], call->amount);
    return observer_fact_value(&values, value, called) && observer_walk_word(walk, *called, called);
  case CODE_CALL_FIXED:
    return observer_walk_word(walk, call->target, called);
  default:
    return false;
  }
}

enum observer_link observer_link_of_frame(struct walk *walk, unw_cursor_t *cursor, struct code_range function) {
  static struct frame_facts all_facts[OBSERVER_CONTEXTS_MAX];
  struct frame_facts *facts = &all_facts[observer_context];
  struct code_range range, whole, none = {0};
  unw_word_t pc;
  uint64_t called;
  if (observer_libunwind.get_reg(cursor, UNW_REG_IP, &pc) != 0 || !observer_walk_frame_function(cursor, &range) ||
      !observer_frame_facts(range, none, pc, false, true, facts) || !called_by(walk, cursor, facts, &called))
    return OBSERVER_LINK_PERHAPS;
  return link_of_called(called, function, &whole, JUMPS_DEPTH);
}

#endif
