/* Registers, per processor architecture: the same functions in arch_x86_64.c, arch_aarch64.c and arch_unsupported.c. */
#ifndef OBSERVER_ARCH_H
#define OBSERVER_ARCH_H

#include "observer_base.h"

/* The registers that unwinding needs, in the order of the architecture's DWARF register numbers. */
#define OBSERVER_REGISTERS_MAX 34

struct observer_registers {
  uint64_t values[OBSERVER_REGISTERS_MAX];
  uint64_t known; /* bit N: values[N] is the thread's. A thread that is read from outside gives its sp and pc only */
};

/* What stands before a return address. */
enum observer_call_kind {
  OBSERVER_CALL_NONE = 0,     /* no call instruction: the address is not a return address */
  OBSERVER_CALL_DIRECT = 1,   /* a call of a known address */
  OBSERVER_CALL_INDIRECT = 2, /* a call through a register or memory */
};

/* Bytes of code that are looked at before a return address, at the beginning of a function or stub, and where a
 * signal's handler returns to. */
enum {
  OBSERVER_CALL_BYTES = 8,
  OBSERVER_PROLOGUE_BYTES = 48,
  OBSERVER_SIGNAL_RETURN_BYTES = 9,
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

/* Where the calling thread's own data is. Async-signal-safe: yes. Threads: any. */
uint64_t observer_arch_thread_pointer(void);

/* Bytes below the stack pointer that belong to the interrupted function and that the kernel's signal frame leaves
 * alone. Unwind tables refer to them: in an epilogue a register that has just been popped still counts as saved there.
 * Async-signal-safe: yes. Threads: any. */
uint64_t observer_arch_red_zone(void);

/* Sets REGISTERS to those of a thread of which only its stack pointer SP and its program counter PC are known.
 * Async-signal-safe: yes. Threads: any. */
void observer_arch_set_blocked(struct observer_registers *registers, uint64_t sp, uint64_t pc);

/* Adds to REGISTERS those that pass the ARGUMENTS, six, of the system call that the thread is blocked in: where a stub has
 * no stack to keep something on, it keeps it there. Async-signal-safe: yes. Threads: any. */
void observer_arch_set_arguments(struct observer_registers *registers, const uint64_t *arguments);

/* libunwind's number of the frame pointer. Async-signal-safe: yes. Threads: any. */
int observer_arch_frame_pointer(void);

/* libunwind's number of the register that a function's result is returned in, and exceptions are passed to their
 * handler.
 * Async-signal-safe: yes. Threads: any. */
int observer_arch_result_register(void);

/* What kind of call ends at RETURN_ADDRESS, from the OBSERVER_CALL_BYTES bytes of CODE before it. Sets *TARGET for a direct
 * call. Async-signal-safe: yes. Threads: any. */
enum observer_call_kind observer_arch_call_before(const uint8_t *code, uint64_t return_address, uint64_t *target);

/* Whether the call that ends at RETURN_ADDRESS, from the OBSERVER_CALL_BYTES bytes of CODE before it, goes to the
 * address that *SLOT holds: a call through the loader's table of addresses. Async-signal-safe: yes. Threads: any. */
bool observer_arch_call_slot(const uint8_t *code, uint64_t return_address, uint64_t *slot);

/* Whether the OBSERVER_PROLOGUE_BYTES bytes of CODE at ADDRESS are a linkage stub, which jumps to the address that *SLOT
 * holds. Async-signal-safe: yes. Threads: any. */
bool observer_arch_stub(const uint8_t *code, uint64_t address, uint64_t *slot);

/* Whether the OBSERVER_SIGNAL_RETURN_BYTES bytes of CODE are what a signal's handler returns to: the system call that
 * goes on with what the signal interrupted. Async-signal-safe: yes. Threads: any. */
bool observer_arch_signal_return(const uint8_t *code);

/* How far above the stack pointer the frame pointer is while a function calls others, from the OBSERVER_PROLOGUE_BYTES
 * bytes of CODE at its beginning. Returns false when they do not tell.
 * Async-signal-safe: yes. Threads: any. */
bool observer_arch_frame_bytes(const uint8_t *code, uint64_t *bytes);

/* Sets REGISTERS to those of a frame of which its program counter PC and stack pointer SP are known, and, where
 * HAS_FRAME_POINTER says so, its FRAME_POINTER. Async-signal-safe: yes. Threads: any. */
void observer_arch_set_frame(struct observer_registers *registers, uint64_t pc, uint64_t sp, uint64_t frame_pointer,
                             bool has_frame_pointer);

/* Whether a function ends in the LENGTH bytes of CODE, and another one follows; eight more bytes can be read. True in case of
 * doubt. Async-signal-safe: yes. Threads: any. */
bool observer_arch_function_ends(const uint8_t *code, size_t length);

/* How many of the bytes of CODE, of which 16 can be read, are one piece of what linkers and compilers fill up with between
 * functions; 0 if they are none. Async-signal-safe: yes. Threads: any. */
size_t observer_arch_filling(const uint8_t *code);

/* What functions are aligned to. Async-signal-safe: yes. Threads: any. */
uint64_t observer_arch_function_alignment(void);

/* Whether the OBSERVER_PROLOGUE_BYTES bytes of CODE begin a function that keeps a frame pointer.
 * Async-signal-safe: yes. Threads: any. */
bool observer_arch_frame_begins(const uint8_t *code);

/* Looks up libunwind's register NUMBER in REGISTERS. Returns false when it is not known.
 * Async-signal-safe: yes. Threads: the monitor. */
bool observer_arch_unwind_register(const struct observer_registers *registers, int number, uint64_t *value);

/* ADDRESS as a code address: without a pointer authentication code, where the architecture has one.
 * Async-signal-safe: yes. Threads: any. */
uint64_t observer_arch_code_address(uint64_t address);

#endif
