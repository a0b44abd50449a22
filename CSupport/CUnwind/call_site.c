#include "call_site.h"

#include "dataflow/solve.h"
#include "function_start.h"
#include "process_memory.h"
#include "unwind_tables.h"

#include <string.h>

enum { LOWEST_CODE = 4096 };

enum { JUMPS_DEPTH = 3, JUMPING_BYTES_MAX = 16 << 10, REMEMBERED = 256, THUNK_BYTES_MAX = 64 };

struct remembered {
  uint64_t called, function;
  enum call_site site;
  struct code_range whole;
};

struct call_sites {
  struct remembered remembered[REMEMBERED];
  struct frame_facts facts; /* facts of the calling frame */
};

size_t cunwind_call_sites_bytes(void) { return sizeof(struct call_sites); }

void cunwind_call_sites_forget(struct unwinder *unwinder) {
  memset(unwinder->call_sites->remembered, 0, sizeof unwinder->call_sites->remembered);
}

enum unwind_call_kind cunwind_call_before(struct unwinder *unwinder, uint64_t return_address, uint64_t *target) {
  enum { PAGE = 4096 };
  uint8_t code[UNWIND_CALL_BYTES] = {0};
  size_t length = sizeof code;
  if (return_address < PAGE)
    return UNWIND_CALL_NONE;
  if (!cunwind_read(unwinder, return_address - length, code, length)) {
    length = return_address % PAGE < length ? (size_t)(return_address % PAGE) : 0;
    if (length == 0 || !cunwind_read(unwinder, return_address - length, code + sizeof code - length, length))
      return UNWIND_CALL_NONE;
  }
  return unwinder->architecture->call_before(code, return_address, target);
}

uint64_t cunwind_resolve_plt(struct unwinder *unwinder, uint64_t address) {
  uint8_t stub[UNWIND_PROLOGUE_BYTES];
  uint64_t entry, resolved;
  bool is_stub = cunwind_read(unwinder, address, stub, sizeof stub) &&
                 unwinder->architecture->is_plt_stub(stub, address, &entry) &&
                 cunwind_read(unwinder, entry, &resolved, sizeof resolved);
  return is_stub ? resolved : address;
}

static enum call_site site_of_called(struct unwinder *unwinder, uint64_t called, struct code_range function,
                                     struct code_range *whole, int depth);

static enum call_site site_of_jump(struct unwinder *unwinder, uint64_t target, struct code_range function,
                                   struct code_range *whole, int depth) {
  struct code_range other = {0};
  if (target > function.start && target < function.end)
    return CALL_SITE_OF_WHOLE;
  if (depth == 0)
    return cunwind_resolve_plt(unwinder, target) == function.start ? CALL_SITE_CERTAIN : CALL_SITE_OTHER;
  enum call_site site = site_of_called(unwinder, target, function, &other, depth - 1);
  if (site == CALL_SITE_OF_WHOLE)
    *whole = other;
  return site;
}

/* Classifies a call of RANGE by RANGE's jumps to other functions, followed through up to DEPTH more functions. Sets
 * *ANYWHERE if the target of a jump is unknown. */
static enum call_site site_by_jumps(struct unwinder *unwinder, struct code_range range, struct code_range function,
                                    struct code_range *whole, int depth, bool *anywhere) {
  enum call_site best = CALL_SITE_OTHER;
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  if (range.end - range.start > JUMPING_BYTES_MAX)
    return CALL_SITE_OTHER;
  for (uint64_t address = range.start; address < range.end;) {
    size_t length = cunwind_decode_at(unwinder, address, operations, &count);
    if (length == 0) {
      *anywhere = true;
      return best;
    }
    address += length;
    for (int index = 0; index < count; index++) {
      uint64_t target = operations[index].target;
      enum code_kind kind = operations[index].kind;
      *anywhere |= kind == CODE_JUMP_ANYWHERE;
      if (kind == CODE_JUMP_GOT && !cunwind_read(unwinder, target, &target, sizeof target))
        continue;
      if ((kind != CODE_JUMP && kind != CODE_BRANCH && kind != CODE_JUMP_GOT) ||
          (target >= range.start && target < range.end))
        continue;
      struct code_range jumping = range;
      struct function_jumps jumps;
      if (target == function.start && cunwind_function_jumps(unwinder, range, target, &jumps) && jumps.with_frame) {
        *whole = range;
        return CALL_SITE_OF_WHOLE;
      }
      enum call_site site = site_of_jump(unwinder, target, function, &jumping, depth);
      if (site > best) {
        best = site;
        *whole = jumping;
      }
    }
  }
  return best;
}

/* Whether the function at ADDRESS is a thunk for an indirect call: it calls an address in its own code, and the code
 * there overwrites the return address. */
static bool is_thunk(struct unwinder *unwinder, uint64_t address) {
  struct code_operation operations[CODE_OPERATIONS];
  int count = 0;
  size_t length = cunwind_decode_at(unwinder, address, operations, &count);
  return length > 0 && count > 0 && operations[count - 1].kind == CODE_CALL &&
         operations[count - 1].target - address - length < THUNK_BYTES_MAX;
}

static enum call_site site_of_called(struct unwinder *unwinder, uint64_t called, struct code_range function,
                                     struct code_range *whole, int depth) {
  struct code_range range, none = {0};
  struct function_jumps jumps;
  called = cunwind_resolve_plt(unwinder, called);
  if (called == function.start)
    return CALL_SITE_CERTAIN;
  if (called > function.start && called < function.end)
    return CALL_SITE_POSSIBLE;
  uint64_t place = (called >> 4 ^ called >> 12 ^ function.start >> 4) % REMEMBERED;
  struct remembered *memory = &unwinder->call_sites->remembered[place];
  if (memory->called == called && memory->function == function.start) {
    *whole = memory->whole;
    return memory->site;
  }
  enum call_site site = CALL_SITE_OTHER;
  *whole = none;
  if (is_thunk(unwinder, called) || (!cunwind_table_function(unwinder, called, &range) &&
                                     (!cunwind_function_around(unwinder, called, &range) || range.start != called))) {
    site = CALL_SITE_POSSIBLE;
  } else if (range.start == called) {
    bool anywhere = range.end - range.start > JUMPING_BYTES_MAX;
    site = site_by_jumps(unwinder, range, function, whole, depth, &anywhere);
    if (site == CALL_SITE_OTHER && anywhere && (!cunwind_function_jumps(unwinder, range, 0, &jumps) || jumps.anywhere))
      site = CALL_SITE_POSSIBLE;
  }
  *memory = (struct remembered){called, function.start, site, *whole};
  return site;
}

enum call_site cunwind_call_site_before(struct unwinder *unwinder, uint64_t return_address, struct code_range function,
                                        struct code_range *whole) {
  uint8_t code[UNWIND_CALL_BYTES], trampoline[UNWIND_SIGNAL_RETURN_BYTES];
  uint64_t target = 0, entry;
  if (return_address < LOWEST_CODE || !cunwind_read(unwinder, return_address - sizeof code, code, sizeof code))
    return CALL_SITE_OTHER;
  switch (unwinder->architecture->call_before(code, return_address, &target)) {
  case UNWIND_CALL_DIRECT:
    return site_of_called(unwinder, target, function, whole, JUMPS_DEPTH);
  case UNWIND_CALL_INDIRECT:
    if (unwinder->architecture->calls_got_entry(code, return_address, &entry) &&
        cunwind_read(unwinder, entry, &target, sizeof target)) {
      enum call_site site = site_of_called(unwinder, target, function, whole, JUMPS_DEPTH);
      if (site != CALL_SITE_OTHER)
        return site;
    }
    return CALL_SITE_POSSIBLE; /* memory might have changed since the call */
  default:
    /* The kernel calls a signal handler like a function pointer. */
    if (cunwind_read(unwinder, return_address, trampoline, sizeof trampoline) &&
        unwinder->architecture->is_signal_return(trampoline))
      return CALL_SITE_POSSIBLE;
    return CALL_SITE_OTHER;
  }
}

/* Finds the target of the indirect call in progress in CURSOR's frame, which FACTS describe. */
static bool called_by(struct cursor *cursor, const struct frame_facts *facts, uint64_t *called) {
  struct walk *walk = cursor->walk;
  struct unwinder *unwinder = walk->unwinder;
  struct symbol_values values = {.known = 0};
  struct symbolic_value value;
  uint64_t word;
  struct cursor caller = *cursor;
  for (int number = 0; number < unwinder->architecture->general_registers; number++)
    if (!(unwinder->architecture->call_clobbered >> number & 1) && cunwind_cursor_register(cursor, number, &word))
      cunwind_learn(&values, facts->state.registers[number], word);
  if (cunwind_cursor_step(&caller) > 0 && !walk->no_info && !walk->no_module)
    cunwind_learn(&values, symbolic_entry(unwinder->architecture->sp), caller.sp - unwinder->architecture->entry_bytes);
  cunwind_conclude(walk, facts, &values);
  const struct code_operation *call = &facts->call;
  switch (call->kind) {
  case CODE_CALL_REGISTER:
    return cunwind_value(&values, facts->state.registers[call->from], called);
  case CODE_CALL_MEMORY:
    value = symbolic_plus(facts->state.registers[call->from], call->amount);
    return cunwind_value(&values, value, called) && cunwind_word(walk, *called, called);
  case CODE_CALL_FIXED:
    return cunwind_word(walk, call->target, called);
  default:
    return false;
  }
}

enum call_site cunwind_call_site_of_frame(struct cursor *cursor, struct code_range function) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  struct frame_facts *facts = &unwinder->call_sites->facts;
  struct code_range range, whole, none = {0};
  uint64_t pc = cunwind_cursor_pc(cursor), called;
  if (!cunwind_function_at(unwinder, cunwind_code_address(unwinder, pc) - 1, &range) ||
      !cunwind_frame_facts(unwinder, range, none, pc, false, true, facts) || !called_by(cursor, facts, &called))
    return CALL_SITE_POSSIBLE;
  return site_of_called(unwinder, called, function, &whole, JUMPS_DEPTH);
}
