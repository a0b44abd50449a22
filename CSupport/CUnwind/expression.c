#include "expression.h"

#include "eh_frame.h"
#include "process_memory.h"

#include <string.h>

enum {
  DW_OP_addr = 0x03,
  DW_OP_deref = 0x06,
  DW_OP_const1u = 0x08,
  DW_OP_const8s = 0x0f,
  DW_OP_constu = 0x10,
  DW_OP_consts = 0x11,
  DW_OP_dup = 0x12,
  DW_OP_drop = 0x13,
  DW_OP_over = 0x14,
  DW_OP_pick = 0x15,
  DW_OP_swap = 0x16,
  DW_OP_rot = 0x17,
  DW_OP_abs = 0x19,
  DW_OP_and = 0x1a,
  DW_OP_div = 0x1b,
  DW_OP_minus = 0x1c,
  DW_OP_mod = 0x1d,
  DW_OP_mul = 0x1e,
  DW_OP_neg = 0x1f,
  DW_OP_not = 0x20,
  DW_OP_or = 0x21,
  DW_OP_plus = 0x22,
  DW_OP_plus_uconst = 0x23,
  DW_OP_shl = 0x24,
  DW_OP_shr = 0x25,
  DW_OP_shra = 0x26,
  DW_OP_xor = 0x27,
  DW_OP_bra = 0x28,
  DW_OP_eq = 0x29,
  DW_OP_ge = 0x2a,
  DW_OP_gt = 0x2b,
  DW_OP_le = 0x2c,
  DW_OP_lt = 0x2d,
  DW_OP_ne = 0x2e,
  DW_OP_skip = 0x2f,
  DW_OP_lit0 = 0x30,
  DW_OP_lit31 = 0x4f,
  DW_OP_breg0 = 0x70,
  DW_OP_breg31 = 0x8f,
  DW_OP_bregx = 0x92,
  DW_OP_deref_size = 0x94,
  DW_OP_nop = 0x96,
};

enum { STACK_MAX = 32, OPERATIONS_MAX = 200 };

struct machine {
  struct walk *walk;
  expression_register find_register;
  void *frame;
  struct entry_reader reader;
  uint64_t stack[STACK_MAX];
  size_t depth;
  bool failed;
};

static void push(struct machine *machine, uint64_t value) {
  if (machine->depth == STACK_MAX)
    machine->failed = true;
  else
    machine->stack[machine->depth++] = value;
}

static uint64_t pop(struct machine *machine) {
  if (machine->depth > 0)
    return machine->stack[--machine->depth];
  machine->failed = true;
  return 0;
}

static void pick(struct machine *machine, uint64_t index) {
  if (index >= machine->depth)
    machine->failed = true;
  else
    push(machine, machine->stack[machine->depth - 1 - index]);
}

static void push_register(struct machine *machine, uint64_t number) {
  uint64_t value = 0;
  int64_t offset = cunwind_take_signed_leb128(&machine->reader);
  machine->failed |= number >= UNWIND_REGISTERS_MAX || !machine->find_register(machine->frame, (int)number, &value);
  push(machine, value + (uint64_t)offset);
}

static void push_memory(struct machine *machine, uint64_t bytes) {
  uint64_t word = 0;
  machine->failed |= bytes == 0 || bytes > sizeof word || !cunwind_word(machine->walk, pop(machine), &word);
  push(machine, bytes < sizeof word ? word & ((UINT64_C(1) << 8 * (bytes % sizeof word)) - 1) : word);
}

static void push_constant(struct machine *machine, uint8_t operation) {
  int kind = operation - DW_OP_const1u, unused = 64 - (8 << kind / 2);
  uint64_t value = cunwind_take(&machine->reader, (size_t)1 << kind / 2);
  push(machine, kind % 2 != 0 ? (uint64_t)((int64_t)(value << unused) >> unused) : value);
}

static void skip(struct machine *machine, bool condition) {
  int16_t distance = (int16_t)cunwind_take(&machine->reader, sizeof distance);
  if (condition)
    machine->reader.at += (uint64_t)(int64_t)distance;
}

/* Replaces the two entries on top by the result of OPERATION. */
static bool combine(struct machine *machine, uint8_t operation) {
  if (operation < DW_OP_and || operation > DW_OP_ne || operation == DW_OP_neg || operation == DW_OP_not ||
      operation == DW_OP_plus_uconst || operation == DW_OP_bra)
    return false;
  uint64_t right = pop(machine), left = pop(machine), result = 0;
  int64_t signed_left = (int64_t)left, signed_right = (int64_t)right;
  switch (operation) {
  case DW_OP_and:
    result = left & right;
    break;
  case DW_OP_div:
    machine->failed |= right == 0;
    result = right == 0 || signed_right == -1 ? 0 - left : (uint64_t)(signed_left / signed_right);
    break;
  case DW_OP_minus:
    result = left - right;
    break;
  case DW_OP_mod:
    machine->failed |= right == 0;
    result = right == 0 ? 0 : left % right;
    break;
  case DW_OP_mul:
    result = left * right;
    break;
  case DW_OP_or:
    result = left | right;
    break;
  case DW_OP_plus:
    result = left + right;
    break;
  case DW_OP_shl:
    result = right < 64 ? left << right : 0;
    break;
  case DW_OP_shr:
    result = right < 64 ? left >> right : 0;
    break;
  case DW_OP_shra:
    result = (uint64_t)(signed_left >> (right < 64 ? right : 63));
    break;
  case DW_OP_xor:
    result = left ^ right;
    break;
  case DW_OP_eq:
    result = left == right;
    break;
  case DW_OP_ge:
    result = signed_left >= signed_right;
    break;
  case DW_OP_gt:
    result = signed_left > signed_right;
    break;
  case DW_OP_le:
    result = signed_left <= signed_right;
    break;
  case DW_OP_lt:
    result = signed_left < signed_right;
    break;
  default: /* DW_OP_ne */
    result = left != right;
    break;
  }
  push(machine, result);
  return true;
}

/* Runs an operation that moves entries or changes the top entry. */
static bool change(struct machine *machine, uint8_t operation) {
  uint64_t top, second, third;
  switch (operation) {
  case DW_OP_dup:
    pick(machine, 0);
    return true;
  case DW_OP_drop:
    pop(machine);
    return true;
  case DW_OP_over:
    pick(machine, 1);
    return true;
  case DW_OP_pick:
    pick(machine, cunwind_take(&machine->reader, 1));
    return true;
  case DW_OP_swap:
    top = pop(machine);
    second = pop(machine);
    push(machine, top);
    push(machine, second);
    return true;
  case DW_OP_rot:
    top = pop(machine);
    second = pop(machine);
    third = pop(machine);
    push(machine, top);
    push(machine, third);
    push(machine, second);
    return true;
  case DW_OP_abs:
    top = pop(machine);
    push(machine, (int64_t)top < 0 ? 0 - top : top);
    return true;
  case DW_OP_neg:
    push(machine, 0 - pop(machine));
    return true;
  case DW_OP_not:
    push(machine, ~pop(machine));
    return true;
  case DW_OP_plus_uconst:
    top = pop(machine);
    push(machine, top + cunwind_take_leb128(&machine->reader));
    return true;
  default:
    return false;
  }
}

static void run(struct machine *machine, uint8_t operation) {
  struct entry_reader *reader = &machine->reader;
  if (operation >= DW_OP_lit0 && operation <= DW_OP_lit31)
    push(machine, operation - DW_OP_lit0);
  else if (operation >= DW_OP_breg0 && operation <= DW_OP_breg31)
    push_register(machine, operation - DW_OP_breg0);
  else if (operation >= DW_OP_const1u && operation <= DW_OP_const8s)
    push_constant(machine, operation);
  else if (operation == DW_OP_bregx)
    push_register(machine, cunwind_take_leb128(reader));
  else if (operation == DW_OP_addr)
    push(machine, cunwind_take(reader, 8));
  else if (operation == DW_OP_constu)
    push(machine, cunwind_take_leb128(reader));
  else if (operation == DW_OP_consts)
    push(machine, (uint64_t)cunwind_take_signed_leb128(reader));
  else if (operation == DW_OP_deref)
    push_memory(machine, 8);
  else if (operation == DW_OP_deref_size)
    push_memory(machine, cunwind_take(reader, 1));
  else if (operation == DW_OP_skip)
    skip(machine, true);
  else if (operation == DW_OP_bra)
    skip(machine, pop(machine) != 0);
  else if (operation != DW_OP_nop && !combine(machine, operation) && !change(machine, operation))
    machine->failed = true;
}

bool cunwind_evaluate(struct walk *walk, uint64_t address, expression_register find_register, void *frame,
                      const uint64_t *initial, uint64_t *value) {
  struct machine machine = {.walk = walk,
                            .find_register = find_register,
                            .frame = frame,
                            .reader = {.unwinder = walk->unwinder, .at = address}};
  struct entry_reader *reader = &machine.reader;
  uint64_t length = cunwind_take_leb128(reader), start = reader->at;
  int count = 0;
  if (initial)
    push(&machine, *initial);
  while (!machine.failed && !reader->failed && reader->at - start < length && count++ < OPERATIONS_MAX)
    run(&machine, (uint8_t)cunwind_take(reader, 1));
  *value = pop(&machine);
  return !machine.failed && !reader->failed && reader->at - start == length;
}
