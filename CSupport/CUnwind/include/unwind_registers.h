#ifndef UNWIND_REGISTERS_H
#define UNWIND_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNWIND_REGISTERS_MAX 34

struct unwind_registers {
  uint64_t values[UNWIND_REGISTERS_MAX];
  uint64_t known; /* bit N: values[N] is known. For a blocked thread the kernel gives only sp and pc */
};

struct unwind_architecture;

/* Returns the program counter or the stack pointer in REGISTERS. Async-signal-safe: yes. Threads: any. */
uint64_t cunwind_pc(const struct unwind_architecture *architecture, const struct unwind_registers *registers);
uint64_t cunwind_sp(const struct unwind_architecture *architecture, const struct unwind_registers *registers);

/* Looks up register NUMBER. Returns false if it is unknown. Async-signal-safe: yes. Threads: any. */
bool cunwind_register(const struct unwind_architecture *architecture, const struct unwind_registers *registers,
                      int number, uint64_t *value);

/* Sets REGISTERS to a thread of which only the stack pointer SP and the program counter PC are known.
 * Async-signal-safe: yes. Threads: any. */
void cunwind_set_blocked(const struct unwind_architecture *architecture, struct unwind_registers *registers,
                         uint64_t sp, uint64_t pc);

/* Adds to REGISTERS the six ARGUMENTS of the system call in which the thread is blocked. A system call stub has no
 * frame, so these registers still hold its caller's values. Async-signal-safe: yes. Threads: any. */
void cunwind_set_arguments(const struct unwind_architecture *architecture, struct unwind_registers *registers,
                           const uint64_t *arguments);

/* Sets REGISTERS to a frame with the program counter PC, the stack pointer SP and, if HAS_FRAME_POINTER, the frame
 * pointer FRAME_POINTER. Async-signal-safe: yes. Threads: any. */
void cunwind_set_frame(const struct unwind_architecture *architecture, struct unwind_registers *registers, uint64_t pc,
                       uint64_t sp, uint64_t frame_pointer, bool has_frame_pointer);

#endif
