#include "unwind_architecture.h"

#include "decoder.h"

#include <string.h>

/* DWARF register numbers: System V ABI, AMD64 supplement, figure 3.36. */
enum {
  RAX = 0,
  RDX = 1,
  RCX = 2,
  RSI = 4,
  RDI = 5,
  RBP = 6,
  RSP = 7,
  R8 = 8,
  R9 = 9,
  R10 = 10,
  R11 = 11,
  RIP = 16,
  COUNT = 17,
};
_Static_assert(COUNT <= UNWIND_REGISTERS_MAX && RIP <= CODE_REGISTERS, "every register fits");

static int32_t signed_32(const uint8_t *bytes) {
  int32_t value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

/* Instruction encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CALL and section 2.1.
 */
static enum unwind_call_kind call_before(const uint8_t *code, uint64_t return_address, uint64_t *target) {
  const uint8_t *end = code + UNWIND_CALL_BYTES;
  if (end[-5] == 0xe8) {
    *target = return_address + (uint64_t)(int64_t)signed_32(end - 4);
    return UNWIND_CALL_DIRECT;
  }
  /* FF /2: two to seven bytes, depending on the addressing mode. A prefix (41 for the upper registers) can precede the
   * opcode. */
  for (int length = 2; length <= 7; length++) {
    const uint8_t *call = end - length;
    if (call[0] != 0xff || (call[1] >> 3 & 7) != 2)
      continue;
    int mode = call[1] >> 6, memory = call[1] & 7;
    int expected = 2;
    if (mode != 3) {
      bool has_sib = memory == 4;
      expected += has_sib;
      if (mode == 1)
        expected += 1;
      else if (mode == 2 || memory == 5 || (has_sib && (call[2] & 7) == 5))
        expected += 4;
    }
    if (expected == length)
      return UNWIND_CALL_INDIRECT;
  }
  return UNWIND_CALL_NONE;
}

/* call *displacement(%rip) */
static bool calls_got_entry(const uint8_t *code, uint64_t return_address, uint64_t *entry) {
  const uint8_t *end = code + UNWIND_CALL_BYTES;
  if (end[-6] != 0xff || end[-5] != 0x15)
    return false;
  *entry = return_address + (uint64_t)(int64_t)signed_32(end - 4);
  return true;
}

/* Length of an "endbr64" at CODE. Functions and stubs begin with this instruction if indirect branches are checked. */
static size_t landing_pad(const uint8_t *code) {
  static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
  return memcmp(code, endbr64, sizeof endbr64) == 0 ? sizeof endbr64 : 0;
}

static bool is_plt_stub(const uint8_t *code, uint64_t address, uint64_t *entry) {
  size_t at = landing_pad(code);
  if (code[at] == 0xf2) /* bnd */
    at++;
  if (code[at] != 0xff || code[at + 1] != 0x25) /* jmp *displacement(%rip) */
    return false;
  *entry = address + at + 6 + (uint64_t)(int64_t)signed_32(code + at + 2);
  return true;
}

/* mov $SYS_rt_sigreturn, %rax; syscall. Unwinders recognize this form only, so no other form is in use. */
static bool is_signal_return(const uint8_t *code) {
  static const uint8_t sigreturn[UNWIND_SIGNAL_RETURN_BYTES] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  return memcmp(code, sigreturn, sizeof sigreturn) == 0;
}

/* Whether an instruction between CODE and END might change the stack pointer by a constant: sub $n,%rsp or and
 * $n,%rsp. */
static bool adjusts_stack(const uint8_t *code, const uint8_t *end) {
  for (; end - code >= 3; code++)
    if (code[0] == 0x48 && (code[1] == 0x83 || code[1] == 0x81) && (code[2] == 0xec || code[2] == 0xe4))
      return true;
  return false;
}

/* Recognizes push %rbp; mov %rsp,%rbp; any pushes; an optional sub $n,%rsp. If other instructions lie in between, the
 * distance is unknown. */
static bool frame_bytes(const uint8_t *code, uint64_t *bytes) {
  size_t at = landing_pad(code);
  if (code[at] != 0x55)
    return false;
  at++;
  bool moves = (code[at] == 0x48 && code[at + 1] == 0x89 && code[at + 2] == 0xe5) ||
               (code[at] == 0x48 && code[at + 1] == 0x8b && code[at + 2] == 0xec);
  if (!moves)
    return false;
  at += 3;
  *bytes = 0;
  while (at + 8 < UNWIND_PROLOGUE_BYTES) {
    if (code[at] >= 0x50 && code[at] <= 0x57) {
      at += 1;
    } else if (code[at] == 0x41 && code[at + 1] >= 0x50 && code[at + 1] <= 0x57) {
      at += 2;
    } else {
      break;
    }
    *bytes += 8;
  }
  if (code[at] == 0x48 && code[at + 1] == 0x83 && code[at + 2] == 0xec)
    *bytes += code[at + 3];
  else if (code[at] == 0x48 && code[at + 1] == 0x81 && code[at + 2] == 0xec)
    *bytes += (uint64_t)signed_32(code + at + 3);
  else
    return !adjusts_stack(code + at, code + UNWIND_PROLOGUE_BYTES);
  return true;
}

/* int3, nop, a landing pad or push %rbp. */
static bool fills_or_begins(const uint8_t *code) {
  return code[0] == 0xcc || code[0] == 0x90 || code[0] == 0x66 || code[0] == 0x55 ||
         (code[0] == 0x0f && code[1] == 0x1f) || landing_pad(code);
}

/* A return or a jump, followed by padding or a prologue. */
static bool function_ends(const uint8_t *code, size_t length) {
  for (size_t at = 0; at < length; at++)
    if ((code[at] == 0xc3 && fills_or_begins(code + at + 1)) || (code[at] == 0xe9 && fills_or_begins(code + at + 5)) ||
        (code[at] == 0xeb && fills_or_begins(code + at + 2)))
      return true;
  return false;
}

/* int3, zero bytes, and nop with any prefixes and operands. */
static size_t padding(const uint8_t *code) {
  size_t at = 0;
  if (code[0] == 0xcc || code[0] == 0)
    return 1;
  while (at < 8 && (code[at] == 0x66 || code[at] == 0x2e || code[at] == 0x3e))
    at++;
  if (code[at] == 0x90)
    return at + 1;
  if (code[at] != 0x0f || code[at + 1] != 0x1f)
    return 0;
  int mode = code[at + 2] >> 6, low = code[at + 2] & 7;
  return at + 3 + (mode != 3 && low == 4) + (mode == 1) + (mode == 2 || (mode == 0 && low == 5) ? 4 : 0);
}

static bool begins_frame(const uint8_t *code) {
  size_t at = landing_pad(code);
  return code[at] == 0x55 && ((code[at + 1] == 0x48 && code[at + 2] == 0x89 && code[at + 3] == 0xe5) ||
                              (code[at + 1] == 0x48 && code[at + 2] == 0x8b && code[at + 3] == 0xec));
}

const struct unwind_architecture cunwind_x86_64 = {
    .name = "x86_64",
    .registers = COUNT,
    .general_registers = RIP,
    .sp = RSP,
    .pc = RIP,
    .frame_pointer = RBP,
    .result = RAX,
    .link = UNWIND_NO_REGISTER,
    .return_column = RIP,
    /* syscall(2), "Architecture calling conventions". */
    .arguments = {RDI, RSI, RDX, R10, R8, R9},
    /* System V ABI, AMD64 supplement, figure 3.4. */
    .call_clobbered = 1 << RAX | 1 << RDX | 1 << RCX | 1 << RSI | 1 << RDI | 1 << R8 | 1 << R9 | 1 << R10 | 1 << R11,
    .entry_bytes = 8,
    /* System V ABI, AMD64 supplement, section 3.2.2. */
    .red_zone = 128,
    .function_alignment = 16,
    .instruction_bytes = 0,
    .code_mask = UINT64_MAX,
    .call_before = call_before,
    .calls_got_entry = calls_got_entry,
    .is_plt_stub = is_plt_stub,
    .is_signal_return = is_signal_return,
    .frame_bytes = frame_bytes,
    .begins_frame = begins_frame,
    .function_ends = function_ends,
    .padding = padding,
    .decode = cunwind_x86_64_decode,
};
