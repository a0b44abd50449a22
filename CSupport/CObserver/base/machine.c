#define _GNU_SOURCE
#include "base/observer_machine.h"

#include <ucontext.h>
CLINUX_RESIDENT_CODE

const char *observer_machine_name(void) { return cunwind_host() ? cunwind_host()->name : "unsupported"; }

#if defined(__x86_64__)

enum { RSP = 7 };

/* Registers in DWARF's order: System V ABI, AMD64 supplement, figure 3.36. */
static const int context_register[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                       REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
enum { REGISTERS = sizeof context_register / sizeof context_register[0] };
_Static_assert(REGISTERS <= UNWIND_REGISTERS_MAX, "every register fits");

void observer_machine_registers(const void *context, struct unwind_registers *registers) {
  const ucontext_t *interrupted = context;
  for (int number = 0; number < REGISTERS; number++)
    registers->values[number] = (uint64_t)interrupted->uc_mcontext.gregs[context_register[number]];
  registers->known = (UINT64_C(1) << REGISTERS) - 1;
}

uint64_t observer_machine_sp(const struct unwind_registers *registers) { return registers->values[RSP]; }

/* System V ABI, AMD64 supplement, section 3.2.2. */
uint64_t observer_machine_red_zone(void) { return 128; }

/* System V ABI, AMD64 supplement, section 3.4.6 of the TLS ABI: the word at %fs:0 contains its own address. */
uint64_t observer_machine_thread_pointer(void) {
  uint64_t pointer;
  __asm__("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

#elif defined(__aarch64__)

/* DWARF for the Arm 64-bit Architecture, section 4.1: x0 to x30, sp 31, pc 32. */
enum { GENERAL = 31, SP = 31, PC = 32, REGISTERS = 33 };
_Static_assert(REGISTERS <= UNWIND_REGISTERS_MAX, "every register fits");

void observer_machine_registers(const void *context, struct unwind_registers *registers) {
  const ucontext_t *interrupted = context;
  for (int number = 0; number < GENERAL; number++)
    registers->values[number] = interrupted->uc_mcontext.regs[number];
  registers->values[SP] = interrupted->uc_mcontext.sp;
  registers->values[PC] = interrupted->uc_mcontext.pc;
  registers->known = (UINT64_C(1) << REGISTERS) - 1;
}

uint64_t observer_machine_sp(const struct unwind_registers *registers) { return registers->values[SP]; }

/* Linux has no red zone on this architecture (AAPCS64, section 6.4.5). */
uint64_t observer_machine_red_zone(void) { return 0; }

uint64_t observer_machine_thread_pointer(void) {
  uint64_t pointer;
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
  return pointer;
}

#else

void observer_machine_registers(const void *context, struct unwind_registers *registers) {
  (void)context;
  registers->known = 0;
}

uint64_t observer_machine_sp(const struct unwind_registers *registers) {
  (void)registers;
  return 0;
}

uint64_t observer_machine_red_zone(void) { return 0; }

uint64_t observer_machine_thread_pointer(void) { return 0; }

#endif
