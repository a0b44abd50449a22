#include "decoder.h"

#include <string.h>

/* Instruction encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapters 2 to 6 and
 * appendix A. DWARF numbers registers in another order (System V ABI, AMD64 supplement, figure 3.36). */
static const int8_t dwarf_number[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};

enum { RAX = 0, RDX = 1, RCX = 2, RBX = 3, RBP = 6, RSP = 7 };

struct reading {
  const uint8_t *at;
  const uint8_t *code; /* the instruction's first byte */
  uint64_t address;    /* the instruction's address */
  bool wide;           /* 64-bit operands: REX.W */
  bool small;          /* 16-bit operands: prefix 66 */
  bool repeat;         /* prefix F3 */
  bool repeat_not;     /* prefix F2 */
  bool segment;        /* prefix 64 or 65: addresses are relative to a segment */
  bool short_addresses;
  int rex;
  /* Set by read_operands: */
  int reg, rm; /* DWARF numbers; rm: of a register operand, or UNWIND_NO_REGISTER */
  int field;   /* the three bits of reg, which can extend the opcode */
  bool memory;
  bool relative; /* the address is relative to the next instruction */
  int base;      /* of a memory operand; UNWIND_NO_REGISTER without a base or with an index */
  int32_t displacement;
};

static int32_t take_32(struct reading *reading) {
  int32_t value;
  memcpy(&value, reading->at, sizeof value);
  reading->at += sizeof value;
  return value;
}

/* Reads ModRM, SIB and displacement. */
static void read_operands(struct reading *reading) {
  int modrm = *reading->at++, mode = modrm >> 6, low = modrm & 7;
  reading->field = modrm >> 3 & 7;
  reading->reg = dwarf_number[reading->field | (reading->rex & 4) << 1];
  reading->rm = UNWIND_NO_REGISTER;
  reading->base = UNWIND_NO_REGISTER;
  reading->memory = mode != 3;
  reading->relative = false;
  reading->displacement = 0;
  if (mode == 3) {
    reading->rm = dwarf_number[low | (reading->rex & 1) << 3];
    return;
  }
  bool no_base = false, index = false;
  int base = low;
  if (low == 4) {
    int sib = *reading->at++;
    index = (sib >> 3 & 7) != 4 || (reading->rex & 2);
    base = sib & 7;
    no_base = base == 5 && mode == 0;
  } else if (low == 5 && mode == 0) {
    reading->relative = no_base = true;
  }
  if (mode == 1)
    reading->displacement = (int8_t)*reading->at++;
  else if (mode == 2 || no_base)
    reading->displacement = take_32(reading);
  if (!no_base && !index && !reading->segment && !reading->short_addresses)
    reading->base = dwarf_number[base | (reading->rex & 1) << 3];
}

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
  if (number != UNWIND_NO_REGISTER)
    add(operations, CODE_SET, number, UNWIND_NO_REGISTER, 0);
}

static void set_number(struct operations *operations, int to, int64_t number) {
  add(operations, CODE_SET_NUMBER, to, UNWIND_NO_REGISTER, number);
}

static void store(struct operations *operations, const struct reading *reading, int from) {
  if (reading->memory && reading->base != UNWIND_NO_REGISTER)
    add(operations, CODE_STORE, reading->base, from, reading->displacement);
}

static void push(struct operations *operations, int from) {
  add(operations, CODE_SET, RSP, RSP, -8);
  add(operations, CODE_STORE, RSP, from, 0);
}

static void pop(struct operations *operations, int to) {
  if (to != UNWIND_NO_REGISTER)
    add(operations, CODE_LOAD, to, RSP, 0);
  add(operations, CODE_SET, RSP, RSP, 8);
}

static void change(struct operations *operations, const struct reading *reading) {
  if (reading->memory)
    store(operations, reading, UNWIND_NO_REGISTER);
  else
    forget(operations, reading->rm);
}

static void arithmetic(struct operations *operations, const struct reading *reading, int operation, int64_t constant) {
  if (operation == 7) /* cmp */
    return;
  if (reading->memory || !reading->wide || (operation != 0 && operation != 4 && operation != 5))
    change(operations, reading);
  else if (operation == 4)
    add(operations, CODE_ALIGN, reading->rm, UNWIND_NO_REGISTER, constant);
  else
    add(operations, CODE_SET, reading->rm, reading->rm, operation == 0 ? constant : -constant);
}

/* Returns the address at DISTANCE from the end of the bytes read so far. */
static uint64_t fixed_address(const struct reading *reading, int32_t distance) {
  return reading->address + (uint64_t)(reading->at - reading->code) + (uint64_t)(int64_t)distance;
}

static void jump(struct operations *operations, const struct reading *reading, enum code_kind kind, int32_t distance) {
  add(operations, kind, 0, 0, 0)->target = fixed_address(reading, distance);
}

static bool one_byte_opcode(struct reading *reading, int opcode, struct operations *operations) {
  if (opcode < 0x40 && (opcode & 7) < 6) { /* add, or, adc, sbb, and, sub, xor, cmp */
    int operation = opcode >> 3;
    if ((opcode & 7) >= 4) {
      int32_t constant =
          opcode & 1 ? (reading->small ? (reading->at += 2, 0) : take_32(reading)) : (int8_t)*reading->at++;
      reading->memory = false;
      reading->rm = RAX;
      if (opcode & 1 && reading->wide)
        arithmetic(operations, reading, operation, constant);
      else if (operation != 7)
        forget(operations, RAX);
      return true;
    }
    read_operands(reading);
    if (operation == 7)
      return true;
    bool to_reg = opcode & 2;
    if (operation == 5 && reading->wide && (opcode & 1) && (to_reg || !reading->memory))
      add(operations, CODE_LOWER, to_reg ? reading->reg : reading->rm, UNWIND_NO_REGISTER, 0);
    else if ((opcode == 0x31 || opcode == 0x33) && reading->rm == reading->reg && !reading->small)
      set_number(operations, reading->reg, 0); /* xor */
    else if (to_reg)
      forget(operations, reading->reg);
    else
      change(operations, reading);
    return true;
  }
  if (opcode >= 0x50 && opcode <= 0x57) {
    push(operations, dwarf_number[(opcode & 7) | (reading->rex & 1) << 3]);
    return true;
  }
  if (opcode >= 0x58 && opcode <= 0x5f) {
    pop(operations, dwarf_number[(opcode & 7) | (reading->rex & 1) << 3]);
    return true;
  }
  if (opcode >= 0x70 && opcode <= 0x7f) {
    jump(operations, reading, CODE_BRANCH, (int8_t)*reading->at++);
    return true;
  }
  if (opcode >= 0x90 && opcode <= 0x97) {
    int other = dwarf_number[(opcode & 7) | (reading->rex & 1) << 3];
    if (other == RAX) {
      add(operations, CODE_PADDING, 0, 0, 0);
    } else {
      forget(operations, RAX);
      forget(operations, other);
    }
    return true;
  }
  if (opcode >= 0xb0 && opcode <= 0xbf) {
    int to = dwarf_number[(opcode & 7) | (reading->rex & 1) << 3];
    if (opcode < 0xb8 || (reading->small && !reading->wide)) {
      reading->at += opcode < 0xb8 ? 1 : 2;
      forget(operations, to);
    } else {
      uint64_t low = (uint32_t)take_32(reading);
      set_number(operations, to, (int64_t)(reading->wide ? (uint64_t)take_32(reading) << 32 | low : low));
    }
    return true;
  }
  switch (opcode) {
  case 0x63: /* movsxd */
    read_operands(reading);
    forget(operations, reading->reg);
    return true;
  case 0x68: /* push constant */
    reading->at += reading->small ? 2 : 4;
    push(operations, UNWIND_NO_REGISTER);
    return true;
  case 0x6a:
    reading->at++;
    push(operations, UNWIND_NO_REGISTER);
    return true;
  case 0x69: /* imul */
  case 0x6b:
    read_operands(reading);
    reading->at += opcode == 0x6b ? 1 : reading->small ? 2 : 4;
    forget(operations, reading->reg);
    return true;
  case 0x80:
  case 0x81:
  case 0x83: {
    read_operands(reading);
    int64_t constant = opcode != 0x81   ? (int8_t)*reading->at++
                       : reading->small ? (reading->at += 2, 0)
                                        : take_32(reading);
    if (opcode == 0x80 || reading->small)
      reading->wide = false;
    arithmetic(operations, reading, reading->field, constant);
    return true;
  }
  case 0x84: /* test */
  case 0x85:
    read_operands(reading);
    return true;
  case 0x86: /* xchg */
  case 0x87:
    read_operands(reading);
    forget(operations, reading->reg);
    change(operations, reading);
    return true;
  case 0x88:
    read_operands(reading);
    change(operations, reading);
    return true;
  case 0x89:
    read_operands(reading);
    if (reading->memory)
      store(operations, reading, reading->wide ? reading->reg : UNWIND_NO_REGISTER);
    else
      add(operations, CODE_SET, reading->rm, reading->wide ? reading->reg : UNWIND_NO_REGISTER, 0);
    return true;
  case 0x8a:
    read_operands(reading);
    forget(operations, reading->reg);
    return true;
  case 0x8b:
    read_operands(reading);
    if (reading->memory && reading->wide && reading->base != UNWIND_NO_REGISTER)
      add(operations, CODE_LOAD, reading->reg, reading->base, reading->displacement);
    else if (reading->relative && reading->wide && !reading->segment)
      add(operations, CODE_LOAD_FIXED, reading->reg, UNWIND_NO_REGISTER, 0)->target =
          fixed_address(reading, reading->displacement);
    else
      add(operations, CODE_SET, reading->reg, reading->memory || !reading->wide ? UNWIND_NO_REGISTER : reading->rm, 0);
    return true;
  case 0x8d: /* lea */
    read_operands(reading);
    if (reading->relative && reading->wide)
      add(operations, CODE_SET_FIXED, reading->reg, UNWIND_NO_REGISTER, 0)->target =
          fixed_address(reading, reading->displacement);
    else
      add(operations, CODE_SET, reading->reg, reading->wide ? reading->base : UNWIND_NO_REGISTER,
          reading->displacement);
    return true;
  case 0x8f:
    read_operands(reading);
    change(operations, reading);
    pop(operations, reading->rm);
    return true;
  case 0x98: /* cdqe */
    forget(operations, RAX);
    return true;
  case 0x99: /* cqo */
    forget(operations, RDX);
    return true;
  case 0xa4:
  case 0xa5:
  case 0xa6:
  case 0xa7:
  case 0xaa:
  case 0xab:
  case 0xac:
  case 0xad:
  case 0xae:
  case 0xaf:
    add(operations, CODE_CLOBBER, 0, 0, 1 << RAX | 1 << RCX | 1 << 4 | 1 << 5);
    return true;
  case 0xa8: /* test */
    reading->at++;
    return true;
  case 0xa9:
    reading->at += reading->small ? 2 : 4;
    return true;
  case 0xc0: /* shifts */
  case 0xc1:
  case 0xd0:
  case 0xd1:
  case 0xd2:
  case 0xd3: {
    read_operands(reading);
    int distance = opcode < 0xd0 ? *reading->at++ : 1;
    if (!reading->memory && reading->wide && (opcode == 0xc1 || opcode == 0xd1) &&
        (reading->field == 4 || reading->field == 5))
      add(operations, reading->field == 4 ? CODE_SHIFT_LEFT : CODE_SHIFT_RIGHT, reading->rm, UNWIND_NO_REGISTER,
          distance);
    else
      change(operations, reading);
    return true;
  }
  case 0xc2:
    reading->at += 2;
    add(operations, CODE_RETURN, 0, UNWIND_NO_REGISTER, reading->at[-2] | reading->at[-1] << 8);
    return true;
  case 0xc3:
    add(operations, CODE_RETURN, 0, UNWIND_NO_REGISTER, 0);
    return true;
  case 0xf4: /* hlt */
  case 0xcc:
    add(operations, CODE_END, 0, 0, 0);
    return true;
  case 0xc6:
    read_operands(reading);
    reading->at++;
    change(operations, reading);
    return true;
  case 0xc7: {
    read_operands(reading);
    int64_t number = reading->small ? (reading->at += 2, 0) : take_32(reading);
    if (reading->memory || reading->small)
      change(operations, reading);
    else
      set_number(operations, reading->rm, reading->wide ? number : (uint32_t)number);
    return true;
  }
  case 0xc9: /* leave */
    add(operations, CODE_SET, RSP, RBP, 0);
    pop(operations, RBP);
    return true;
  case 0xd8: /* x87 */
  case 0xd9:
  case 0xda:
  case 0xdb:
  case 0xdc:
  case 0xdd:
  case 0xde:
  case 0xdf:
    read_operands(reading);
    if (reading->memory)
      store(operations, reading, UNWIND_NO_REGISTER);
    else if (opcode == 0xdf && reading->field == 4)
      forget(operations, RAX); /* fnstsw */
    return true;
  case 0xe8:
  case 0xe9:
    jump(operations, reading, opcode == 0xe8 ? CODE_CALL : CODE_JUMP, take_32(reading));
    return true;
  case 0xeb:
  case 0xe3: /* jrcxz */
    jump(operations, reading, opcode == 0xeb ? CODE_JUMP : CODE_BRANCH, (int8_t)*reading->at++);
    return true;
  case 0xf5: /* flags */
  case 0xf8:
  case 0xf9:
  case 0xfc:
  case 0xfd:
  case 0x9b:
    return true;
  case 0xf6:
  case 0xf7:
    read_operands(reading);
    if (reading->field < 2) { /* test */
      reading->at += opcode == 0xf6 ? 1 : reading->small ? 2 : 4;
    } else if (reading->field < 4) {
      change(operations, reading);
    } else {
      forget(operations, RAX);
      forget(operations, RDX);
    }
    return true;
  case 0xfe:
  case 0xff:
    read_operands(reading);
    if (reading->field < 2) {
      change(operations, reading);
    } else if (opcode == 0xfe) {
      return false;
    } else if (reading->field == 2) {
      if (!reading->memory)
        add(operations, CODE_CALL_REGISTER, 0, reading->rm, 0);
      else if (reading->relative && !reading->segment)
        add(operations, CODE_CALL_FIXED, 0, UNWIND_NO_REGISTER, 0)->target =
            fixed_address(reading, reading->displacement);
      else if (reading->base != UNWIND_NO_REGISTER)
        add(operations, CODE_CALL_MEMORY, 0, reading->base, reading->displacement);
      else
        add(operations, CODE_CALL, 0, 0, 0);
    } else if (reading->field == 4) {
      jump(operations, reading, reading->relative ? CODE_JUMP_GOT : CODE_JUMP_ANYWHERE, reading->displacement);
    } else if (reading->field == 6) {
      push(operations, UNWIND_NO_REGISTER);
    } else {
      return false;
    }
    return true;
  default:
    return false;
  }
}

/* Opcodes of the map 0F that write a general register: reg, rm, or both. */
static bool writes_reg(const struct reading *reading, int opcode) {
  if (opcode >= 0x40 && opcode <= 0x4f) /* cmov */
    return true;
  switch (opcode) {
  case 0x02: /* lar, lsl */
  case 0x03:
  case 0x50: /* movmskps, pmovmskb, pextrw */
  case 0xc5:
  case 0xd7:
  case 0xaf: /* imul */
  case 0xb6: /* movzx, movsx */
  case 0xb7:
  case 0xbe:
  case 0xbf:
  case 0xb8: /* popcnt, tzcnt, lzcnt, bsf, bsr */
  case 0xbc:
  case 0xbd:
  case 0xc0: /* xadd */
  case 0xc1:
    return true;
  case 0x2c: /* conversions to integers */
  case 0x2d:
    return reading->repeat || reading->repeat_not;
  default:
    return false;
  }
}

static bool writes_rm(const struct reading *reading, int opcode) {
  if (opcode >= 0x90 && opcode <= 0x9f) /* setcc */
    return true;
  switch (opcode) {
  case 0x7e: /* movd, movq */
    return !reading->repeat;
  case 0xa4: /* double-precision shifts */
  case 0xa5:
  case 0xac:
  case 0xad:
  case 0xab: /* bts, btr, btc */
  case 0xb3:
  case 0xbb:
  case 0xb0: /* cmpxchg, xadd */
  case 0xb1:
  case 0xc0:
  case 0xc1:
    return true;
  case 0xba:
    return reading->field > 4;
  case 0xc7: /* rdrand */
    return reading->field >= 6;
  default:
    return false;
  }
}

static bool two_byte_opcode(struct reading *reading, struct operations *operations) {
  int opcode = *reading->at++;
  if (opcode >= 0x80 && opcode <= 0x8f) {
    jump(operations, reading, CODE_BRANCH, take_32(reading));
    return true;
  }
  if (opcode >= 0xc8 && opcode <= 0xcf) { /* bswap */
    forget(operations, dwarf_number[(opcode & 7) | (reading->rex & 1) << 3]);
    return true;
  }
  switch (opcode) {
  case 0x05:
    add(operations, CODE_SYSTEM_CALL, 0, 0, 0);
    return true;
  case 0x0b: /* ud2 */
    add(operations, CODE_END, 0, 0, 0);
    return true;
  case 0x01: /* xgetbv, rdtscp and others */
    read_operands(reading);
    if (!reading->memory)
      add(operations, CODE_CLOBBER, 0, 0, 1 << RAX | 1 << RCX | 1 << RDX);
    return true;
  case 0x31: /* rdtsc */
    add(operations, CODE_CLOBBER, 0, 0, 1 << RAX | 1 << RDX);
    return true;
  case 0xa2: /* cpuid */
    add(operations, CODE_CLOBBER, 0, 0, 1 << RAX | 1 << RBX | 1 << RCX | 1 << RDX);
    return true;
  case 0x77: /* emms */
    return true;
  case 0x1f:
  case 0x1e: /* endbr64 among others */
    read_operands(reading);
    add(operations, CODE_PADDING, 0, 0, 0);
    return true;
  case 0x38:
    opcode = *reading->at++;
    read_operands(reading);
    if (opcode >= 0xf0 && opcode <= 0xf6) { /* movbe, crc32, adcx */
      if (opcode == 0xf1 && !reading->repeat_not)
        change(operations, reading);
      else
        forget(operations, reading->reg);
    }
    return true;
  case 0x3a:
    opcode = *reading->at++;
    read_operands(reading);
    reading->at++;
    if (opcode >= 0x14 && opcode <= 0x17) /* pextr, extractps */
      change(operations, reading);
    return true;
  default:
    break;
  }
  if ((opcode >= 0x04 && opcode <= 0x09) || opcode == 0x0a || opcode == 0x0c || (opcode >= 0x20 && opcode <= 0x27) ||
      (opcode >= 0x30 && opcode <= 0x3f) || opcode == 0xa0 || opcode == 0xa1 || opcode == 0xa8 || opcode == 0xa9 ||
      opcode == 0xaa)
    return false;
  read_operands(reading);
  if (opcode == 0x70 || (opcode >= 0x71 && opcode <= 0x73) || opcode == 0xa4 || opcode == 0xac || opcode == 0xba ||
      opcode == 0xc2 || opcode == 0xc4 || opcode == 0xc5 || opcode == 0xc6)
    reading->at++;
  if (writes_reg(reading, opcode))
    forget(operations, reading->reg);
  if (writes_rm(reading, opcode))
    change(operations, reading);
  else if (reading->memory && (opcode == 0x11 || opcode == 0x13 || opcode == 0x17 || opcode == 0x29 || opcode == 0x2b ||
                               opcode == 0x7f || opcode == 0xd6 || opcode == 0xe7 || opcode == 0xc3)) {
    store(operations, reading, UNWIND_NO_REGISTER); /* up to two words */
    if (reading->base != UNWIND_NO_REGISTER)
      add(operations, CODE_STORE, reading->base, UNWIND_NO_REGISTER, reading->displacement + 8);
  }
  if (opcode == 0xb0 || opcode == 0xb1 || (opcode == 0xc7 && reading->field == 1))
    forget(operations, RAX);
  if (opcode == 0xc7 && reading->field == 1)
    forget(operations, RDX);
  return true;
}

/* Vector instructions: VEX (C4, C5) and EVEX (62). */
static bool vector_opcode(struct reading *reading, int prefix, struct operations *operations) {
  int map = 1, other = 0;
  if (prefix == 0xc5) {
    int byte = *reading->at++;
    reading->rex = byte & 0x80 ? 0 : 4;
    other = ~byte >> 3 & 15;
    reading->repeat = (byte & 3) == 2;
    reading->repeat_not = (byte & 3) == 3;
  } else {
    int first = *reading->at++, second = *reading->at++;
    reading->rex = ~first >> 5 & 7;
    map = first & (prefix == 0xc4 ? 31 : 7);
    other = ~second >> 3 & 15;
    reading->repeat = (second & 3) == 2;
    reading->repeat_not = (second & 3) == 3;
    if (prefix == 0x62)
      reading->at++;
  }
  int opcode = *reading->at++;
  if (map == 1 && opcode == 0x77) /* vzeroupper */
    return true;
  if (map < 1 || map > 3)
    return prefix == 0x62 && map < 7 ? (read_operands(reading), true) : false;
  /* One-byte EVEX displacements are in units of the operand size; they are not tracked. */
  read_operands(reading);
  if (map == 3 || (map == 1 && (opcode == 0x70 || (opcode >= 0x71 && opcode <= 0x73) || opcode == 0xc2 ||
                                opcode == 0xc4 || opcode == 0xc5 || opcode == 0xc6)))
    reading->at++;
  if (map == 1 && (writes_reg(reading, opcode) && opcode != 0xc0 && opcode != 0xc1) &&
      (opcode < 0x40 || opcode > 0x4f) && opcode < 0xe0)
    forget(operations, reading->reg);
  if (map == 1 && opcode == 0x7e && !reading->repeat)
    change(operations, reading);
  if (map == 2 && opcode >= 0xf2 && opcode <= 0xf7) { /* andn, bls*, bzhi, pdep, mulx, shifts */
    forget(operations, reading->reg);
    forget(operations, dwarf_number[other]);
  }
  if (map == 3 && opcode == 0xf0) /* rorx */
    forget(operations, reading->reg);
  if (map == 3 && opcode >= 0x14 && opcode <= 0x17)
    change(operations, reading);
  if (map == 1 && reading->memory && prefix != 0x62 && reading->base != UNWIND_NO_REGISTER &&
      (opcode == 0x11 || opcode == 0x29 || opcode == 0x7f || opcode == 0xd6 || opcode == 0xe7 || opcode == 0x2b))
    for (int word = 0; word < 4; word++)
      add(operations, CODE_STORE, reading->base, UNWIND_NO_REGISTER, reading->displacement + 8 * word);
  return true;
}

size_t cunwind_x86_64_decode(const uint8_t *code, uint64_t address, struct code_operation *operations, int *count) {
  struct reading reading = {.at = code, .code = code, .address = address};
  struct operations result = {operations, 0};
  int byte;
  for (int prefixes = 0;; prefixes++) {
    byte = *reading.at++;
    if (prefixes == 14)
      return 0;
    if (byte == 0x66)
      reading.small = true;
    else if (byte == 0xf3)
      reading.repeat = true;
    else if (byte == 0xf2)
      reading.repeat_not = true;
    else if (byte == 0x64 || byte == 0x65)
      reading.segment = true;
    else if (byte == 0x67)
      reading.short_addresses = true;
    else if (byte != 0xf0 && byte != 0x2e && byte != 0x36 && byte != 0x3e && byte != 0x26)
      break;
  }
  if ((byte & 0xf0) == 0x40) {
    reading.rex = byte & 15;
    reading.wide = byte & 8;
    byte = *reading.at++;
  }
  bool known;
  if (byte == 0x0f)
    known = two_byte_opcode(&reading, &result);
  else if (byte == 0xc4 || byte == 0xc5 || byte == 0x62)
    known = vector_opcode(&reading, byte, &result);
  else
    known = one_byte_opcode(&reading, byte, &result);
  *count = result.count;
  size_t length = (size_t)(reading.at - code);
  return known && length <= CODE_BYTES / 2 ? length : 0;
}
