#include "decoder.h"

#include <string.h>

/* Instruction encodings: Arm Architecture Reference Manual for A-profile, chapter C4. Register 31 is the stack pointer
 * or the zero register, depending on the instruction. */
enum { LINK = 30, NONE = 31 };

struct operations {
  struct code_operation *list;
  int count;
};

static struct code_operation *add(struct operations *operations, enum code_kind kind, int to, int from,
                                  int64_t amount) {
  struct code_operation *operation = &operations->list[operations->count++];
  *operation = (struct code_operation){.kind = kind, .to = to, .from = from, .amount = amount};
  return operation;
}

static void forget(struct operations *operations, int number) {
  if (number != NONE)
    add(operations, CODE_SET, number, UNWIND_NO_REGISTER, 0);
}

static int64_t field(uint32_t word, int low, int bits) {
  return (int64_t)((uint64_t)(word >> low) << (64 - bits)) >> (64 - bits);
}

static int to_of(uint32_t word) { return word & 31; }

static int from_of(uint32_t word) { return word >> 5 & 31; }

static void with_constant(uint32_t word, uint64_t address, struct operations *operations) {
  int to = to_of(word), from = from_of(word);
  if ((word & 0x9f000000) == 0x90000000) { /* adrp */
    int64_t pages = field(word, 5, 19) * 4 + (word >> 29 & 3);
    if (to != NONE)
      add(operations, CODE_SET_FIXED, to, UNWIND_NO_REGISTER, 0)->target =
          (address & ~UINT64_C(0xfff)) + (uint64_t)(pages * 4096);
  } else if ((word & 0x7f800000) == 0x52800000 && to != NONE) { /* movz */
    add(operations, CODE_SET_NUMBER, to, UNWIND_NO_REGISTER,
        (int64_t)((uint64_t)(word >> 5 & 0xffff) << 16 * (word >> 21 & 3)));
  } else if ((word & 0xbf800000) == 0x91000000) { /* add, sub, 64 bits */
    int64_t amount = (int64_t)(word >> 10 & 0xfff) << (word >> 22 & 1 ? 12 : 0);
    add(operations, CODE_SET, to, from, word >> 30 & 1 ? -amount : amount);
  } else if ((word & 0xff800000) == 0x92000000 && (word >> 22 & 1)) { /* and, 64 bits */
    int rotation = (int)(word >> 16 & 63), ones = (int)(word >> 10 & 63) + 1;
    if (rotation == ones && from != NONE) { /* clears low bits */
      add(operations, CODE_SET, to, from, 0);
      add(operations, CODE_ALIGN, to, UNWIND_NO_REGISTER, (int64_t)(UINT64_MAX << (64 - ones)));
    } else {
      add(operations, CODE_SET, to, UNWIND_NO_REGISTER, 0);
    }
  } else {
    forget(operations, to);
  }
}

/* Data processing with register operands. */
static void with_registers(uint32_t word, struct operations *operations) {
  int to = to_of(word), from = from_of(word), other = (int)(word >> 16 & 31);
  if ((word & 0xffe0ffe0) == 0xaa0003e0) { /* mov */
    if (to != NONE)
      add(operations, CODE_SET, to, other == NONE ? UNWIND_NO_REGISTER : other, 0);
  } else if ((word & 0xffe00000) == 0xcb200000 || ((word & 0xff200000) == 0xcb000000 && to != NONE && from != NONE)) {
    add(operations, CODE_SET, to, from, 0); /* sub with an extended or a shifted register */
    add(operations, CODE_LOWER, to, UNWIND_NO_REGISTER, 0);
  } else if ((word & 0xffe00000) == 0x8b200000) { /* add with an extended register */
    add(operations, CODE_SET, to, UNWIND_NO_REGISTER, 0);
  } else {
    forget(operations, to);
  }
}

static void access(struct operations *operations, bool loads, bool whole, int number, int base, int64_t offset) {
  if (!loads)
    add(operations, CODE_STORE, base, whole && number != NONE ? number : UNWIND_NO_REGISTER, offset);
  else if (whole && number != NONE)
    add(operations, CODE_LOAD, number, base, offset);
  else
    forget(operations, number);
}

static void memory(uint32_t word, struct operations *operations) {
  int number = to_of(word), base = from_of(word), other = (int)(word >> 10 & 31);
  bool vector = word >> 26 & 1;
  if ((word & 0x3a000000) == 0x28000000) { /* pairs */
    int size = (int)(word >> 30), mode = (int)(word >> 23 & 3);
    int bytes = vector ? 4 << size : size == 2 ? 8 : 4;
    int64_t offset = field(word, 15, 7) * bytes, at = mode == 1 ? 0 : offset;
    bool loads = word >> 22 & 1, whole = !vector && size == 2;
    if (mode == 3) {
      add(operations, CODE_SET, base, base, offset);
      at = 0;
    }
    if (!vector || !loads) {
      access(operations, loads, whole, vector ? NONE : number, base, at);
      access(operations, loads, whole, vector ? NONE : other, base, at + bytes);
    }
    if (mode == 1)
      add(operations, CODE_SET, base, base, offset);
    return;
  }
  int size = (int)(word >> 30);
  bool loads = (word >> 22 & 3) != 0, whole = !vector && size == 3 && (word >> 22 & 3) < 2;
  int64_t offset = 0;
  int mode = 0;
  if ((word & 0x3b000000) == 0x39000000) { /* a constant offset */
    offset = (int64_t)(word >> 10 & 0xfff) << size;
  } else if ((word & 0x3b200000) == 0x38000000) {
    offset = field(word, 12, 9);
    mode = (int)(word >> 10 & 3); /* 1: post-index, 3: pre-index */
  } else {                        /* register offset, exclusive, atomic, or PC-relative */
    if (!vector)
      forget(operations, number);
    if ((word & 0x3f000000) == 0x08000000 || (word & 0x3b200c00) == 0x38200000)
      forget(operations, (int)(word >> 16 & 31));
    return;
  }
  if (mode == 3) {
    add(operations, CODE_SET, base, base, offset);
    offset = 0;
  }
  if (!vector || !loads)
    access(operations, loads, whole, vector ? NONE : number, base, mode == 1 ? 0 : offset);
  if (mode == 1)
    add(operations, CODE_SET, base, base, offset);
}

static bool branch(uint32_t word, uint64_t address, struct operations *operations) {
  if ((word & 0x7c000000) == 0x14000000) /* b, bl */
    add(operations, word >> 31 ? CODE_CALL : CODE_JUMP, 0, 0, 0)->target = address + (uint64_t)(field(word, 0, 26) * 4);
  else if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) /* b.cond, cbz, cbnz */
    add(operations, CODE_BRANCH, 0, 0, 0)->target = address + (uint64_t)(field(word, 5, 19) * 4);
  else if ((word & 0x7e000000) == 0x36000000) /* tbz, tbnz */
    add(operations, CODE_BRANCH, 0, 0, 0)->target = address + (uint64_t)(field(word, 5, 14) * 4);
  else if ((word & 0xfffffc1f) == 0xd61f0000 || (word & 0xfefff800) == 0xd61f0800) /* br */
    add(operations, CODE_JUMP_ANYWHERE, 0, 0, 0);
  else if ((word & 0xfffffc1f) == 0xd63f0000 || (word & 0xfefff800) == 0xd63f0800) /* blr */
    add(operations, from_of(word) == NONE ? CODE_CALL : CODE_CALL_REGISTER, 0, from_of(word), 0);
  else if ((word & 0xfffff000) == 0xd65f0000) /* ret, and its authenticated forms, which encode no register */
    add(operations, CODE_RETURN, 0, from_of(word) == NONE ? LINK : from_of(word), 0);
  else if ((word & 0xffe0001f) == 0xd4200000 || word < 0x10000) /* brk, udf */
    add(operations, CODE_END, 0, 0, 0);
  else if ((word & 0xffe0001f) == 0xd4000001) /* svc */
    add(operations, CODE_SYSTEM_CALL, 0, 0, 0);
  else if ((word & 0xfffff01f) == 0xd503201f) /* nop, bti, paciasp and others */
    add(operations, CODE_PADDING, 0, 0, 0);
  else if ((word & 0xfff00000) == 0xd5300000) /* mrs */
    forget(operations, to_of(word));
  else
    return (word & 0x1c000000) == 0x14000000;
  return true;
}

size_t cunwind_aarch64_decode(const uint8_t *code, uint64_t address, struct code_operation *operations, int *count) {
  uint32_t word;
  struct operations result = {operations, 0};
  memcpy(&word, code, sizeof word);
  bool branches = branch(word, address, &result);
  if (branches)
    *count = result.count;
  else if ((word & 0x1c000000) == 0x10000000)
    with_constant(word, address, &result);
  else if ((word & 0x0e000000) == 0x0a000000)
    with_registers(word, &result);
  else if ((word & 0x0a000000) == 0x08000000)
    memory(word, &result);
  else if ((word & 0x5f20fc00) == 0x1e200000 || (word & 0xbfe0fc00) == 0x0e003c00) /* conversions, umov */
    forget(&result, to_of(word));
  *count = result.count;
  return sizeof word;
}
