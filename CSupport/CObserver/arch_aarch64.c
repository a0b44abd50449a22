#if defined(__aarch64__)
#define _GNU_SOURCE
#include "observer_arch.h"

#include <libunwind.h>
#include <ucontext.h>

/* DWARF register numbers: DWARF for the Arm 64-bit Architecture, section 4.1: x0 to x30, sp 31, pc 32. */
enum { DWARF_X0 = 0, DWARF_X30 = 30, DWARF_SP = 31, DWARF_PC = 32, DWARF_COUNT = 33 };
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
}

uint64_t observer_arch_pc(const struct observer_registers *registers) { return registers->values[DWARF_PC]; }

uint64_t observer_arch_sp(const struct observer_registers *registers) { return registers->values[DWARF_SP]; }

/* Linux has none on this architecture (Procedure Call Standard for the Arm 64-bit Architecture, section 6.4.5). */
uint64_t observer_arch_red_zone(void) { return 0; }

bool observer_arch_unwind_register(const struct observer_registers *registers, int number, uint64_t *value) {
  if (number < 0 || number >= DWARF_COUNT)
    return false;
  *value = registers->values[number];
  return true;
}

/* Linux gives user space at most 52 address bits; a pointer authentication code is above them (bit 55 apart, which is 0
 * for every user address). */
uint64_t observer_arch_code_address(uint64_t address) { return address & ((UINT64_C(1) << 52) - 1); }

#endif
