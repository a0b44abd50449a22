/* The end of a process that is stuck. */
#ifndef OBSERVER_ABORT_H
#define OBSERVER_ABORT_H

#include "observer_base.h"

/* Ends the process by SIGABRT's default action, delivered to thread TID of it, so that a core file shows that thread first.
 *
 * A thread that blocks SIGABRT, as those of Dispatch and Swift concurrency do, is made to deliver it to itself by a handler
 * for SIGPROF, which they do not block. Where the thread takes neither (it sleeps in the kernel, or blocks both), or TID is 0,
 * the calling thread gets SIGABRT after half a second. Does not return.
 * Async-signal-safe: yes. Threads: one at a time, which does not block SIGABRT. */
OBSERVER_NO_LOCKS void observer_abort_thread(int32_t tid);

/* Has the kernel end the process by SIGKILL in AFTER_NS nanoseconds, whatever becomes of the calling thread until then.
 * Returns whether that is so: timers may be refused.
 * Async-signal-safe: yes. Threads: the warden. */
OBSERVER_NO_LOCKS bool observer_abort_arm(uint64_t after_ns);

/* Takes that back. Async-signal-safe: yes. Threads: the warden. */
OBSERVER_NO_LOCKS void observer_abort_disarm(void);

/* Writes the BYTES bytes of TEXT to standard error, as far as it takes them without being waited for: not longer than
 * half a second.
 * Async-signal-safe: yes. Threads: the warden. */
OBSERVER_NO_LOCKS void observer_abort_say(const char *text, size_t bytes);

#endif
