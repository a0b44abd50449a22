#if defined(__x86_64__)
#define _GNU_SOURCE
#include "observer_arch.h"

#include <libunwind.h>
#include <ucontext.h>

/* DWARF register numbers: System V ABI, AMD64 supplement, figure 3.36. libunwind uses the same ones. */
enum { DWARF_RSP = 7, DWARF_RIP = 16, DWARF_COUNT = 17 };
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
}

uint64_t observer_arch_pc(const struct observer_registers *registers) { return registers->values[DWARF_RIP]; }

uint64_t observer_arch_sp(const struct observer_registers *registers) { return registers->values[DWARF_RSP]; }

/* System V ABI, AMD64 supplement, section 3.2.2. */
uint64_t observer_arch_red_zone(void) { return 128; }

bool observer_arch_unwind_register(const struct observer_registers *registers, int number, uint64_t *value) {
  if (number < 0 || number >= DWARF_COUNT)
    return false;
  *value = registers->values[number];
  return true;
}

uint64_t observer_arch_code_address(uint64_t address) { return address; }

#endif
