#ifndef CPROCESS_ABORT_H
#define CPROCESS_ABORT_H

#include "clinux_base.h"

/* Ends the process by SIGABRT's default action in thread TID, which a core file then shows first. If the thread blocks
 * SIGABRT, a handler for SIGPROF unblocks it there. If the process survives for half a second, or TID is 0, the calling
 * thread gets SIGABRT. Process 1 executes an invalid instruction (SIGILL) instead, because the kernel discards other
 * signals without a handler (pid_namespaces(7)). Does not return. Async-signal-safe: yes. Threads: one at a time. */
CLINUX_NO_LOCKS void cprocess_abort_thread(int32_t tid);

/* Creates the timer for cprocess_abort_arm. Must be called once and early: RLIMIT_SIGPENDING, which also counts timers,
 * might be exhausted later. Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_abort_prepare(void);

/* Makes the kernel end the process by SIGKILL after AFTER_NS nanoseconds. Process 1 gets SIGPROF instead, whose handler
 * (observer_capture.h) calls cprocess_abort_expire. Returns false if the timer is refused. Async-signal-safe: yes.
 * Threads: the escalation thread. */
CLINUX_NO_LOCKS bool cprocess_abort_arm(uint64_t after_ns);

/* Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_abort_disarm(void);

#define CPROCESS_ABORT_VALUE UINT64_C(0x43554c50ffffffff)

/* Ends process 1, unless cprocess_abort_disarm was called. Async-signal-safe: yes. Threads: the one that received the
 * signal. */
void cprocess_abort_expire(void);

/* Writes as much of TEXT as standard error accepts until DEADLINE_NS. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void cprocess_print(const char *text, size_t bytes, uint64_t deadline_ns);

/* cprocess_print for half a second. Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_abort_say(const char *text, size_t bytes);

#endif
