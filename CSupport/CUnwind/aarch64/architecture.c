#include "unwind_architecture.h"

#include "decoder.h"

#include <string.h>

enum { X0 = 0, X29 = 29, X30 = 30, SP = 31, PC = 32, COUNT = 33 };
_Static_assert(COUNT <= UNWIND_REGISTERS_MAX && PC <= CODE_REGISTERS, "every register fits");

static uint32_t instruction(const uint8_t *code) {
  uint32_t word;
  memcpy(&word, code, sizeof word);
  return word;
}

static int64_t field(uint32_t word, int low, int bits) {
  return (int64_t)((uint64_t)(word >> low) << (64 - bits)) >> (64 - bits);
}

/* Instruction encodings: Arm Architecture Reference Manual for A-profile, chapter C6. */
static enum unwind_call_kind call_before(const uint8_t *code, uint64_t return_address, uint64_t *target) {
  uint32_t word = instruction(code + UNWIND_CALL_BYTES - 4);
  if ((word & 0xfc000000) == 0x94000000) { /* BL */
    *target = return_address - 4 + (uint64_t)(field(word, 0, 26) * 4);
    return UNWIND_CALL_DIRECT;
  }
  /* BLR and its authenticated forms. */
  if ((word & 0xfffffc1f) == 0xd63f0000 || (word & 0xfefff800) == 0xd63f0800)
    return UNWIND_CALL_INDIRECT;
  return UNWIND_CALL_NONE;
}

/* A call through the global offset table takes several instructions, which need not be adjacent. */
static bool calls_got_entry(const uint8_t *code, uint64_t return_address, uint64_t *entry) {
  (void)code;
  (void)return_address;
  (void)entry;
  return false;
}

/* Length of a "bti" at CODE. */
static size_t landing_pad(const uint8_t *code) { return (instruction(code) & 0xffffff3f) == 0xd503241f ? 4 : 0; }

/* adrp x16, page; ldr x17, [x16, offset]; add x16, x16, offset; br x17. */
static bool is_plt_stub(const uint8_t *code, uint64_t address, uint64_t *entry) {
  size_t at = landing_pad(code);
  uint32_t page = instruction(code + at), load = instruction(code + at + 4);
  if ((page & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
    return false;
  int64_t pages = field(page, 5, 19) * 4 + (page >> 29 & 3);
  *entry = ((address + at) & ~UINT64_C(0xfff)) + (uint64_t)(pages * 4096) + (load >> 10 & 0xfff) * 8;
  return true;
}

/* mov x8, 139 (rt_sigreturn); svc 0. */
static bool is_signal_return(const uint8_t *code) {
  return instruction(code) == 0xd2801168 && instruction(code + 4) == 0xd4000001;
}

/* Recognizes stp x29, x30, [sp, -n]!; mov x29, sp and sub sp, sp, n; stp x29, x30, [sp, m]; add x29, sp, m. If other
 * registers are stored between these instructions, the distance is unknown. */
static bool frame_bytes(const uint8_t *code, uint64_t *bytes) {
  size_t at = landing_pad(code);
  if (instruction(code + at) == 0xd503233f) /* paciasp */
    at += 4;
  uint32_t first = instruction(code + at), second = instruction(code + at + 4), third = instruction(code + at + 8);
  if ((first & 0xffc07fff) == 0xa9807bfd && second == 0x910003fd) {
    *bytes = 0;
    return true;
  }
  if ((first & 0xff8003ff) == 0xd10003ff && (second & 0xffc07fff) == 0xa9007bfd && (third & 0xffc003ff) == 0x910003fd) {
    *bytes = third >> 10 & 0xfff;
    return true;
  }
  return false;
}

/* A return or a jump, followed by padding (nop, udf, brk) or a prologue (landing pad, paciasp, stp x29, x30). */
static bool function_ends(const uint8_t *code, size_t length) {
  for (size_t at = 0; at + 4 <= length; at += 4) {
    uint32_t word = instruction(code + at), next = instruction(code + at + 4);
    bool leaves = word == 0xd65f03c0 || (word & 0xfc000000) == 0x14000000;
    if (leaves && (next == 0xd503201f || next >> 16 == 0 || (next & 0xffe0001f) == 0xd4200000 || next == 0xd503233f ||
                   landing_pad(code + at + 4) || (next & 0xfe407fff) == 0xa8007bfd))
      return true;
  }
  return false;
}

/* nop, udf, brk. */
static size_t padding(const uint8_t *code) {
  uint32_t word = instruction(code);
  return word == 0xd503201f || word >> 16 == 0 || (word & 0xffe0001f) == 0xd4200000 ? sizeof word : 0;
}

/* An optional bti and paciasp, then stp x29, x30, [sp, -n]! or sub sp, sp, n; stp x29, x30, [sp, m]. */
static bool begins_frame(const uint8_t *code) {
  size_t at = landing_pad(code);
  if (instruction(code + at) == 0xd503233f)
    at += 4;
  uint32_t first = instruction(code + at), second = instruction(code + at + 4);
  return (first & 0xffc07fff) == 0xa9807bfd ||
         ((first & 0xff8003ff) == 0xd10003ff && (second & 0xffc07fff) == 0xa9007bfd);
}

const struct unwind_architecture cunwind_aarch64 = {
    .name = "aarch64",
    .registers = COUNT,
    .general_registers = PC,
    .sp = SP,
    .pc = PC,
    .frame_pointer = X29,
    .result = X0,
    .link = X30,
    .return_column = X30,
    /* syscall(2), "Architecture calling conventions". */
    .arguments = {X0, X0 + 1, X0 + 2, X0 + 3, X0 + 4, X0 + 5},
    /* Procedure Call Standard for the Arm 64-bit Architecture, section 6.1.1. */
    .call_clobbered = UINT64_C(0x7ffff) | UINT64_C(1) << X30,
    .entry_bytes = 0,
    /* Linux has no red zone on this architecture (Procedure Call Standard for the Arm 64-bit Architecture, section
     * 6.4.5). */
    .red_zone = 0,
    .function_alignment = 4,
    .instruction_bytes = 4,
    /* Linux, struct rt_sigframe: siginfo_t, then struct ucontext with its registers from x0 on. */
    .signal_registers = 128 + 176 + 8,
    /* Linux gives a process 48 address bits unless it requests more (Documentation/arch/arm64/memory.rst). Code is
     * mapped below that limit; a pointer authentication code occupies the bits above. */
    .code_mask = (UINT64_C(1) << 48) - 1,
    .call_before = call_before,
    .calls_got_entry = calls_got_entry,
    .is_plt_stub = is_plt_stub,
    .is_signal_return = is_signal_return,
    .frame_bytes = frame_bytes,
    .begins_frame = begins_frame,
    .function_ends = function_ends,
    .padding = padding,
    .decode = cunwind_aarch64_decode,
};
