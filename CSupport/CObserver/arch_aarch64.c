#if defined(__aarch64__)
#define _GNU_SOURCE
#include "observer_arch.h"

#include <libunwind.h>
#include <string.h>
#include <ucontext.h>

/* DWARF register numbers: DWARF for the Arm 64-bit Architecture, section 4.1: x0 to x30, sp 31, pc 32. */
enum { DWARF_X0 = 0, DWARF_X29 = 29, DWARF_X30 = 30, DWARF_SP = 31, DWARF_PC = 32, DWARF_COUNT = 33 };
_Static_assert(DWARF_COUNT <= OBSERVER_REGISTERS_MAX, "every register has its place");
_Static_assert((int)UNW_AARCH64_X30 == DWARF_X30 && (int)UNW_AARCH64_SP == DWARF_SP && (int)UNW_AARCH64_PC == DWARF_PC,
               "libunwind numbers as DWARF does");

const char *observer_arch_name(void) { return "aarch64"; }

bool observer_arch_supported(void) { return true; }

void observer_arch_registers(const void *context, struct observer_registers *registers) {
  const ucontext_t *interrupted = context;
  for (int number = DWARF_X0; number <= DWARF_X30; number++)
    registers->values[number] = interrupted->uc_mcontext.regs[number];
  registers->values[DWARF_SP] = interrupted->uc_mcontext.sp;
  registers->values[DWARF_PC] = interrupted->uc_mcontext.pc;
  registers->known = (UINT64_C(1) << DWARF_COUNT) - 1;
}

void observer_arch_set_blocked(struct observer_registers *registers, uint64_t sp, uint64_t pc) {
  registers->values[DWARF_SP] = sp;
  registers->values[DWARF_PC] = pc;
  registers->known = UINT64_C(1) << DWARF_SP | UINT64_C(1) << DWARF_PC;
}

/* syscall(2), "Architecture calling conventions": x0 to x5. */
void observer_arch_set_arguments(struct observer_registers *registers, const uint64_t *arguments) {
  for (int index = 0; index < 6; index++) {
    registers->values[DWARF_X0 + index] = arguments[index];
    registers->known |= UINT64_C(1) << (DWARF_X0 + index);
  }
}

int observer_arch_frame_pointer(void) { return DWARF_X29; }

int observer_arch_result_register(void) { return DWARF_X0; }

static uint32_t instruction(const uint8_t *code) {
  uint32_t word;
  memcpy(&word, code, sizeof word);
  return word;
}

/* The signed value of the BITS bits of WORD from bit LOW on. */
static int64_t field(uint32_t word, int low, int bits) {
  return (int64_t)((uint64_t)(word >> low) << (64 - bits)) >> (64 - bits);
}

/* Instruction encodings: Arm Architecture Reference Manual for A-profile, chapter C6. */
enum observer_call_kind observer_arch_call_before(const uint8_t *code, uint64_t return_address, uint64_t *target) {
  uint32_t word = instruction(code + OBSERVER_CALL_BYTES - 4);
  if ((word & 0xfc000000) == 0x94000000) { /* BL */
    *target = return_address - 4 + (uint64_t)(field(word, 0, 26) * 4);
    return OBSERVER_CALL_DIRECT;
  }
  /* BLR and its authenticated forms. */
  if ((word & 0xfffffc1f) == 0xd63f0000 || (word & 0xfefff800) == 0xd63f0800)
    return OBSERVER_CALL_INDIRECT;
  return OBSERVER_CALL_NONE;
}

/* Such a call takes several instructions here, which need not stand beside each other. */
bool observer_arch_call_slot(const uint8_t *code, uint64_t return_address, uint64_t *slot) {
  (void)code;
  (void)return_address;
  (void)slot;
  return false;
}

/* Length of a "bti" at CODE, which functions and stubs begin with where indirect branches are tracked. */
static size_t landing_pad(const uint8_t *code) { return (instruction(code) & 0xffffff3f) == 0xd503241f ? 4 : 0; }

/* adrp x16, page; ldr x17, [x16, offset]; add x16, x16, offset; br x17. */
bool observer_arch_stub(const uint8_t *code, uint64_t address, uint64_t *slot) {
  size_t at = landing_pad(code);
  uint32_t page = instruction(code + at), load = instruction(code + at + 4);
  if ((page & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
    return false;
  int64_t pages = field(page, 5, 19) * 4 + (page >> 29 & 3);
  *slot = ((address + at) & ~UINT64_C(0xfff)) + (uint64_t)(pages * 4096) + (load >> 10 & 0xfff) * 8;
  return true;
}

/* mov x8, SYS_rt_sigreturn; svc 0, in the vDSO. */
bool observer_arch_signal_return(const uint8_t *code) {
  return instruction(code) == 0xd2801168 && instruction(code + 4) == 0xd4000001;
}

/* Either stp x29, x30, [sp, -n]!; mov x29, sp, or sub sp, sp, n; stp x29, x30, [sp, m]; add x29, sp, m. Registers that are
 * stored in between make it untold. */
bool observer_arch_frame_bytes(const uint8_t *code, uint64_t *bytes) {
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

uint64_t observer_arch_pc(const struct observer_registers *registers) { return registers->values[DWARF_PC]; }

uint64_t observer_arch_sp(const struct observer_registers *registers) { return registers->values[DWARF_SP]; }

uint64_t observer_arch_thread_pointer(void) {
  uint64_t pointer;
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
  return pointer;
}

/* Linux has none on this architecture (Procedure Call Standard for the Arm 64-bit Architecture, section 6.4.5). */
uint64_t observer_arch_red_zone(void) { return 0; }

void observer_arch_set_frame(struct observer_registers *registers, uint64_t pc, uint64_t sp, uint64_t frame_pointer,
                             bool has_frame_pointer) {
  observer_arch_set_blocked(registers, sp, pc);
  registers->values[DWARF_X29] = frame_pointer;
  registers->known |= (uint64_t)has_frame_pointer << DWARF_X29;
}

/* A return or a jump, and then filling (nop, udf, brk) or a beginning (landing pad, paciasp, stp x29, x30). */
bool observer_arch_function_ends(const uint8_t *code, size_t length) {
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
size_t observer_arch_filling(const uint8_t *code) {
  uint32_t word = instruction(code);
  return word == 0xd503201f || word >> 16 == 0 || (word & 0xffe0001f) == 0xd4200000 ? sizeof word : 0;
}

uint64_t observer_arch_function_alignment(void) { return 4; }

/* Perhaps bti and paciasp; stp x29, x30, [sp, -n]!, or sub sp, sp, n; stp x29, x30, [sp, m]. */
bool observer_arch_frame_begins(const uint8_t *code) {
  size_t at = landing_pad(code);
  if (instruction(code + at) == 0xd503233f)
    at += 4;
  uint32_t first = instruction(code + at), second = instruction(code + at + 4);
  return (first & 0xffc07fff) == 0xa9807bfd || ((first & 0xff8003ff) == 0xd10003ff && (second & 0xffc07fff) == 0xa9007bfd);
}

bool observer_arch_unwind_register(const struct observer_registers *registers, int number, uint64_t *value) {
  if (number < 0 || number >= DWARF_COUNT || !(registers->known >> number & 1))
    return false;
  *value = registers->values[number];
  return true;
}

/* Linux gives a process 48 address bits unless it asks for more (Documentation/arch/arm64/memory.rst), and code is mapped
 * below that; a pointer authentication code is above. */
uint64_t observer_arch_code_address(uint64_t address) { return address & ((UINT64_C(1) << 48) - 1); }

#endif
