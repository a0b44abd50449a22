/* System calls that the kernel restarts after the process was stopped. An interrupted wait for a time (nanosleep,
 * clock_nanosleep, poll, futex) continues as restart_syscall(2), which the kernel reports. The code still contains the
 * original number, loaded before entering the kernel. */
#ifndef OBSERVER_RESTARTED_CALL_H
#define OBSERVER_RESTARTED_CALL_H

#include "observer_base.h"

/* Whether CALL is restart_syscall(2). Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_is_restart(int64_t call);

/* Returns the original call's number of a thread in restart_syscall(2) at PC; -1 if the code does not show it.
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int32_t observer_restarted_call(uint64_t pc);

/* Return the original call's number from the LENGTH bytes of CODE before the call's return. Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS int32_t observer_restarted_call_x86_64(const uint8_t *code, size_t length);
CLINUX_NO_LOCKS int32_t observer_restarted_call_aarch64(const uint8_t *code, size_t length);

#endif
