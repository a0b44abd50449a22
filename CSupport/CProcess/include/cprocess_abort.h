/* Ends a stuck process. */
#ifndef CPROCESS_ABORT_H
#define CPROCESS_ABORT_H

#include "clinux_base.h"

/* Ends the process by SIGABRT's default action, delivered to its thread TID, so that a core file shows that thread
 * first. A thread that blocks SIGABRT sends it to itself in a handler for SIGPROF. If the thread accepts neither
 * signal, or TID is 0, the calling thread gets SIGABRT after half a second. Process 1 of a PID namespace, for which the
 * kernel discards such signals (pid_namespaces(7)), ends by SIGILL from an invalid instruction. Does not return.
 * Async-signal-safe: yes. Threads: one at a time. */
CLINUX_NO_LOCKS void cprocess_abort_thread(int32_t tid);

/* Creates the timer for cprocess_abort_arm, if it does not exist. Later attempts might fail, because RLIMIT_SIGPENDING
 * counts timers. Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_abort_prepare(void);

/* Makes the kernel end the process in AFTER_NS nanoseconds, independent of the calling thread: by SIGKILL, or process 1
 * by SIGPROF, whose handler (observer_capture.h) calls cprocess_abort_expire. Returns false if the timer is refused.
 * Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS bool cprocess_abort_arm(uint64_t after_ns);

/* Cancels cprocess_abort_arm. Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_abort_disarm(void);

#define CPROCESS_ABORT_VALUE UINT64_C(0x43554c50ffffffff)

/* Ends process 1, unless it was disarmed. Async-signal-safe: yes. Threads: the one that received the signal. */
void cprocess_abort_expire(void);

/* Writes the BYTES bytes of TEXT to standard error, as far as it accepts them within half a second. Async-signal-safe:
 * yes. Threads: the escalation thread, and the one that calls exit(3). */
CLINUX_NO_LOCKS void cprocess_abort_say(const char *text, size_t bytes);

#endif
