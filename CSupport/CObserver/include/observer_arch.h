/* Registers, per processor architecture: the same functions in arch_x86_64.c, arch_aarch64.c and arch_unsupported.c. */
#ifndef OBSERVER_ARCH_H
#define OBSERVER_ARCH_H

#include "observer_base.h"

/* The registers that unwinding needs, in the order of the architecture's DWARF register numbers. */
#define OBSERVER_REGISTERS_MAX 34

struct observer_registers {
  uint64_t values[OBSERVER_REGISTERS_MAX];
};

/* The architecture's name as uname(2) has it, or "unsupported". Async-signal-safe: yes. Threads: any. */
const char *observer_arch_name(void);

/* Whether this architecture can be observed at all. Async-signal-safe: yes. Threads: any. */
bool observer_arch_supported(void);

/* Copies the registers of an interrupted thread from CONTEXT, the third argument of its signal handler (a ucontext_t).
 * Async-signal-safe: yes. Threads: the interrupted thread, in its handler. */
void observer_arch_registers(const void *context, struct observer_registers *registers);

/* The program counter and the stack pointer in REGISTERS. Async-signal-safe: yes. Threads: any. */
uint64_t observer_arch_pc(const struct observer_registers *registers);
uint64_t observer_arch_sp(const struct observer_registers *registers);

/* Bytes below the stack pointer that belong to the interrupted function and that the kernel's signal frame leaves alone.
 * Unwind tables refer to them: in an epilogue a register that has just been popped still counts as saved there.
 * Async-signal-safe: yes. Threads: any. */
uint64_t observer_arch_red_zone(void);

/* Looks up libunwind's register NUMBER in REGISTERS. Returns false when it is not among those that were copied.
 * Async-signal-safe: yes. Threads: the monitor. */
bool observer_arch_unwind_register(const struct observer_registers *registers, int number, uint64_t *value);

/* ADDRESS as a code address: without a pointer authentication code, where the architecture has one.
 * Async-signal-safe: yes. Threads: any. */
uint64_t observer_arch_code_address(uint64_t address);

#endif
