/* Whether a thread has written to a word since it was last looked, told by the processor's debug registers.
 *
 * A counter of the kernel's (perf_event_open(2), PERF_TYPE_BREAKPOINT) notes the first write and then switches itself
 * off: the thread that writes is held up once, for some microseconds. No signal is sent, and no descriptor is kept.
 */
#ifndef CLINUX_WATCHPOINT_H
#define CLINUX_WATCHPOINT_H

#include "clinux_base.h"

/* Whether system calls of this process are filtered (seccomp(2)). Async-signal-safe: yes. Threads: any. */
bool clinux_calls_are_filtered(void);

/* What is watched; all zero when nothing is. */
struct clinux_watchpoint {
  void *note; /* what the kernel writes to */
};

/* Watches the eight bytes at ADDRESS, a multiple of eight, for a write by thread TID. Returns 0 or an errno value:
 * EACCES or EPERM where the kernel refuses, or system calls are filtered, whether or not the filter would let it,
 * ENOSPC where the debug registers are in use, EAGAIN where there is no memory for the note just now.
 * Async-signal-safe: yes. Threads: any. */
int clinux_watchpoint_set(struct clinux_watchpoint *watchpoint, int32_t tid, uint64_t address);

/* Whether there has been a write since. Async-signal-safe: yes. Threads: any. */
bool clinux_watchpoint_is_hit(const struct clinux_watchpoint *watchpoint);

/* Watches no more. Does nothing when nothing is watched. Async-signal-safe: yes. Threads: any. */
void clinux_watchpoint_clear(struct clinux_watchpoint *watchpoint);

#endif
