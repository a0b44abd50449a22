/* System calls that the kernel restarts after the process was stopped. A timed wait continues as restart_syscall(2),
 * but the code before the program counter still loads the original system call's number. */
#ifndef OBSERVER_RESTARTED_CALL_H
#define OBSERVER_RESTARTED_CALL_H

#include "base/observer_base.h"

/* Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_is_restart(int64_t call);

/* Returns the original call's number at PC, in restart_syscall(2); -1: unknown. Async-signal-safe: yes. Threads: a
 * sampler. */
CLINUX_NO_LOCKS int32_t observer_restarted_call(uint64_t pc);

/* Return the original call's number from the LENGTH bytes of CODE before the return address. Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS int32_t observer_restarted_call_x86_64(const uint8_t *code, size_t length);
CLINUX_NO_LOCKS int32_t observer_restarted_call_aarch64(const uint8_t *code, size_t length);

#endif
