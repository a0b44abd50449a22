/* Registers of a thread, numbered as DWARF does on its processor architecture. */
#ifndef UNWIND_REGISTERS_H
#define UNWIND_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNWIND_REGISTERS_MAX 34

struct unwind_registers {
  uint64_t values[UNWIND_REGISTERS_MAX];
  uint64_t known; /* bit N: values[N] is the thread's. Of a blocked thread the kernel tells sp and pc only */
};

struct unwind_architecture;

/* The program counter and the stack pointer in REGISTERS. Async-signal-safe: yes. Threads: any. */
uint64_t cunwind_pc(const struct unwind_architecture *architecture, const struct unwind_registers *registers);
uint64_t cunwind_sp(const struct unwind_architecture *architecture, const struct unwind_registers *registers);

/* Looks up register NUMBER. Returns false when it is not known. Async-signal-safe: yes. Threads: any. */
bool cunwind_register(const struct unwind_architecture *architecture, const struct unwind_registers *registers,
                      int number, uint64_t *value);

/* Sets REGISTERS to those of a thread of which only the stack pointer SP and the program counter PC are known.
 * Async-signal-safe: yes. Threads: any. */
void cunwind_set_blocked(const struct unwind_architecture *architecture, struct unwind_registers *registers,
                         uint64_t sp, uint64_t pc);

/* Adds to REGISTERS those that pass the six ARGUMENTS of the system call that the thread is blocked in: a system call
 * stub has no frame, and keeps its callers' values there. Async-signal-safe: yes. Threads: any. */
void cunwind_set_arguments(const struct unwind_architecture *architecture, struct unwind_registers *registers,
                           const uint64_t *arguments);

/* Sets REGISTERS to those of a frame: its program counter PC, its stack pointer SP and, if HAS_FRAME_POINTER, its
 * FRAME_POINTER. Async-signal-safe: yes. Threads: any. */
void cunwind_set_frame(const struct unwind_architecture *architecture, struct unwind_registers *registers, uint64_t pc,
                       uint64_t sp, uint64_t frame_pointer, bool has_frame_pointer);

#endif
