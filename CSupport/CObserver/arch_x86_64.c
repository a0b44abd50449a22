#if defined(__x86_64__)
#define _GNU_SOURCE
#include "observer_arch.h"

#include <libunwind.h>
#include <string.h>
#include <ucontext.h>

/* DWARF register numbers: System V ABI, AMD64 supplement, figure 3.36. libunwind uses the same ones. */
enum { DWARF_RAX = 0, DWARF_RBP = 6, DWARF_RSP = 7, DWARF_RIP = 16, DWARF_COUNT = 17 };
_Static_assert(DWARF_COUNT <= OBSERVER_REGISTERS_MAX, "every register has its place");
_Static_assert((int)UNW_X86_64_RSP == DWARF_RSP && (int)UNW_X86_64_RIP == DWARF_RIP, "libunwind numbers as DWARF does");

static const int context_register[DWARF_COUNT] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                                  REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                  REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

const char *observer_arch_name(void) { return "x86_64"; }

bool observer_arch_supported(void) { return true; }

void observer_arch_registers(const void *context, struct observer_registers *registers) {
  const ucontext_t *interrupted = context;
  for (int number = 0; number < DWARF_COUNT; number++)
    registers->values[number] = (uint64_t)interrupted->uc_mcontext.gregs[context_register[number]];
  registers->known = (UINT64_C(1) << DWARF_COUNT) - 1;
}

void observer_arch_set_blocked(struct observer_registers *registers, uint64_t sp, uint64_t pc) {
  registers->values[DWARF_RSP] = sp;
  registers->values[DWARF_RIP] = pc;
  registers->known = UINT64_C(1) << DWARF_RSP | UINT64_C(1) << DWARF_RIP;
}

/* syscall(2), "Architecture calling conventions": rdi, rsi, rdx, r10, r8, r9. */
void observer_arch_set_arguments(struct observer_registers *registers, const uint64_t *arguments) {
  static const int passing[6] = {5, 4, 1, 10, 8, 9};
  for (int index = 0; index < 6; index++) {
    registers->values[passing[index]] = arguments[index];
    registers->known |= UINT64_C(1) << passing[index];
  }
}

int observer_arch_frame_pointer(void) { return DWARF_RBP; }

int observer_arch_result_register(void) { return DWARF_RAX; }

static int32_t signed_32(const uint8_t *bytes) {
  int32_t value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

/* Instruction encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CALL and section 2.1. */
enum observer_call_kind observer_arch_call_before(const uint8_t *code, uint64_t return_address, uint64_t *target) {
  const uint8_t *end = code + OBSERVER_CALL_BYTES;
  if (end[-5] == 0xe8) {
    *target = return_address + (uint64_t)(int64_t)signed_32(end - 4);
    return OBSERVER_CALL_DIRECT;
  }
  /* FF /2: two to seven bytes, by addressing mode; a prefix (41 for the upper registers) may stand before it. */
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
      return OBSERVER_CALL_INDIRECT;
  }
  return OBSERVER_CALL_NONE;
}

/* call *displacement(%rip) */
bool observer_arch_call_slot(const uint8_t *code, uint64_t return_address, uint64_t *slot) {
  const uint8_t *end = code + OBSERVER_CALL_BYTES;
  if (end[-6] != 0xff || end[-5] != 0x15)
    return false;
  *slot = return_address + (uint64_t)(int64_t)signed_32(end - 4);
  return true;
}

/* Length of an "endbr64" at CODE, which functions and stubs begin with where indirect branches are tracked. */
static size_t landing_pad(const uint8_t *code) {
  static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
  return memcmp(code, endbr64, sizeof endbr64) == 0 ? sizeof endbr64 : 0;
}

bool observer_arch_stub(const uint8_t *code, uint64_t address, uint64_t *slot) {
  size_t at = landing_pad(code);
  if (code[at] == 0xf2) /* bnd */
    at++;
  if (code[at] != 0xff || code[at + 1] != 0x25) /* jmp *displacement(%rip) */
    return false;
  *slot = address + at + 6 + (uint64_t)(int64_t)signed_32(code + at + 2);
  return true;
}

/* mov $SYS_rt_sigreturn, %rax; syscall: the only form that unwinders know, and therefore the only one there is. */
bool observer_arch_signal_return(const uint8_t *code) {
  static const uint8_t sigreturn[OBSERVER_SIGNAL_RETURN_BYTES] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  return memcmp(code, sigreturn, sizeof sigreturn) == 0;
}

/* Whether one of the instructions from CODE to END may change the stack pointer by a constant: sub $n,%rsp or
 * and $n,%rsp. Looks at bytes, not at instructions: a false alarm costs a frame, a miss invents one. */
static bool adjusts_stack(const uint8_t *code, const uint8_t *end) {
  for (; end - code >= 3; code++)
    if (code[0] == 0x48 && (code[1] == 0x83 || code[1] == 0x81) && (code[2] == 0xec || code[2] == 0xe4))
      return true;
  return false;
}

/* push %rbp; mov %rsp,%rbp; any pushes; perhaps sub $n,%rsp. What comes between them makes it untold. */
bool observer_arch_frame_bytes(const uint8_t *code, uint64_t *bytes) {
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
  while (at + 8 < OBSERVER_PROLOGUE_BYTES) {
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
    return !adjusts_stack(code + at, code + OBSERVER_PROLOGUE_BYTES);
  return true;
}

uint64_t observer_arch_pc(const struct observer_registers *registers) { return registers->values[DWARF_RIP]; }

uint64_t observer_arch_sp(const struct observer_registers *registers) { return registers->values[DWARF_RSP]; }

/* System V ABI, AMD64 supplement, section 3.4.6 of the TLS ABI: the word at %fs:0 is its own address. */
uint64_t observer_arch_thread_pointer(void) {
  uint64_t pointer;
  __asm__("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

/* System V ABI, AMD64 supplement, section 3.2.2. */
uint64_t observer_arch_red_zone(void) { return 128; }

void observer_arch_set_frame(struct observer_registers *registers, uint64_t pc, uint64_t sp, uint64_t frame_pointer,
                             bool has_frame_pointer) {
  observer_arch_set_blocked(registers, sp, pc);
  registers->values[DWARF_RBP] = frame_pointer;
  registers->known |= (uint64_t)has_frame_pointer << DWARF_RBP;
}

/* A return, and then filling (int3, nop) or a beginning (landing pad, push %rbp). Looks at bytes, not at instructions. */
bool observer_arch_function_ends(const uint8_t *code, size_t length) {
  for (size_t at = 0; at < length; at++) {
    const uint8_t *next = code + at + 1;
    if (code[at] == 0xc3 && (next[0] == 0xcc || next[0] == 0x90 || next[0] == 0x66 || next[0] == 0x55 ||
                             (next[0] == 0x0f && next[1] == 0x1f) || landing_pad(next)))
      return true;
  }
  return false;
}

/* int3, nothing, and nop with as many prefixes and operands as there is room for. */
size_t observer_arch_filling(const uint8_t *code) {
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

uint64_t observer_arch_function_alignment(void) { return 16; }

bool observer_arch_frame_begins(const uint8_t *code) {
  size_t at = landing_pad(code);
  return code[at] == 0x55 && ((code[at + 1] == 0x48 && code[at + 2] == 0x89 && code[at + 3] == 0xe5) ||
                              (code[at + 1] == 0x48 && code[at + 2] == 0x8b && code[at + 3] == 0xec));
}

bool observer_arch_unwind_register(const struct observer_registers *registers, int number, uint64_t *value) {
  if (number < 0 || number >= DWARF_COUNT || !(registers->known >> number & 1))
    return false;
  *value = registers->values[number];
  return true;
}

uint64_t observer_arch_code_address(uint64_t address) { return address; }

#endif
