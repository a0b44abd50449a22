/* The end of a process that is stuck. */
#ifndef CPROCESS_ABORT_H
#define CPROCESS_ABORT_H

#include "clinux_base.h"

/* Ends the process by SIGABRT's default action, delivered to thread TID of it, so that a core file shows that thread
 * first.
 *
 * A thread that blocks SIGABRT, as those of Dispatch and Swift concurrency do, is made to deliver it to itself by a
 * handler for SIGPROF, which they do not block. Where the thread takes neither (it sleeps in the kernel, or blocks
 * both), or TID is 0, the calling thread gets SIGABRT after half a second.
 *
 * From process 1 of a PID namespace the kernel keeps every signal of its own that has no handler, SIGABRT and SIGKILL
 * included (pid_namespaces(7)). A fault ends it: the thread, or else the caller, meets an instruction that there is
 * not (SIGILL), in that handler. Does not return.
 * Async-signal-safe: yes. Threads: one at a time. */
CLINUX_NO_LOCKS void cprocess_abort_thread(int32_t tid);

/* Makes what cprocess_abort_arm needs, which may not be there later: RLIMIT_SIGPENDING counts timers. Does nothing
 * when it is there. Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_abort_prepare(void);

/* Has the kernel end the process in AFTER_NS nanoseconds, whatever becomes of the calling thread until then: by
 * SIGKILL; process 1 by SIGPROF, whose handler (observer_capture.h) calls cprocess_abort_expire. Returns whether that
 * is so: timers may be refused.
 * Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS bool cprocess_abort_arm(uint64_t after_ns);

/* Takes that back. Async-signal-safe: yes. Threads: the escalation thread. */
CLINUX_NO_LOCKS void cprocess_abort_disarm(void);

/* What comes with that SIGPROF. */
#define CPROCESS_ABORT_VALUE UINT64_C(0x43554c50ffffffff)

/* Ends process 1, if it is to be ended still. Async-signal-safe: yes. Threads: that which the signal came to. */
void cprocess_abort_expire(void);

/* Writes the BYTES bytes of TEXT to standard error, as far as it takes them without being waited for: not longer than
 * half a second.
 * Async-signal-safe: yes. Threads: the escalation thread, and whoever calls exit(3). */
CLINUX_NO_LOCKS void cprocess_abort_say(const char *text, size_t bytes);

#endif
