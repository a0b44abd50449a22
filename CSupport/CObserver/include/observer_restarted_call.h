/* System calls that the kernel begins anew after the process was stopped.
 *
 * A call that waits for a time (nanosleep, clock_nanosleep, poll, futex) and is interrupted by a stop goes on as
 * restart_syscall(2), and that is what the kernel says the thread is in. Which call it was is in the code: what was
 * loaded into the register for the number before the instruction that enters the kernel.
 */
#ifndef OBSERVER_RESTARTED_CALL_H
#define OBSERVER_RESTARTED_CALL_H

#include "observer_base.h"

/* Whether CALL is restart_syscall(2). Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_is_restart(int64_t call);

/* The number of the call that a thread is in which the kernel says to be in restart_syscall(2) at PC; -1 when the code
 * there does not tell. Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int32_t observer_restarted_call(uint64_t pc);

/* The same from the LENGTH bytes of CODE that end where the call returns to, for each architecture.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS int32_t observer_restarted_call_x86_64(const uint8_t *code, size_t length);
CLINUX_NO_LOCKS int32_t observer_restarted_call_aarch64(const uint8_t *code, size_t length);

#endif
