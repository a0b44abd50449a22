/* System calls that the kernel restarts after the process was stopped.
 *
 * A call that waits for a time (nanosleep, clock_nanosleep, poll, futex) and is interrupted by a stop continues as
 * restart_syscall(2), and the kernel reports that call. The original call's number is in the code: it was loaded into
 * the number register before the instruction that enters the kernel. */
#ifndef OBSERVER_RESTARTED_CALL_H
#define OBSERVER_RESTARTED_CALL_H

#include "observer_base.h"

/* Whether CALL is restart_syscall(2). Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_is_restart(int64_t call);

/* Returns the number of the original call of a thread that the kernel reports in restart_syscall(2) at PC; -1 if the
 * code does not show it. Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int32_t observer_restarted_call(uint64_t pc);

/* Return the number of the original call from the LENGTH bytes of CODE before the call's return, for each architecture.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS int32_t observer_restarted_call_x86_64(const uint8_t *code, size_t length);
CLINUX_NO_LOCKS int32_t observer_restarted_call_aarch64(const uint8_t *code, size_t length);

#endif
