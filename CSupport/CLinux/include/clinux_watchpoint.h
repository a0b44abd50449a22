/* Detects whether a thread has written to a word, with the processor's debug registers.
 *
 * A kernel counter (perf_event_open(2), PERF_TYPE_BREAKPOINT) records the first write and then disables itself: the
 * writing thread is delayed once, for some microseconds. */
#ifndef CLINUX_WATCHPOINT_H
#define CLINUX_WATCHPOINT_H

#include "clinux_base.h"

/* Whether system calls of this process are filtered (seccomp(2)). Async-signal-safe: yes. Threads: any. */
bool clinux_calls_are_filtered(void);

/* A watchpoint; all zero if none is set. */
struct clinux_watchpoint {
  void *note; /* the kernel's ring buffer */
};

/* Watches the eight bytes at ADDRESS, a multiple of eight, for a write by thread TID. Returns 0 or an errno value:
 * EACCES or EPERM if the kernel refuses, EPERM without an attempt if system calls are filtered, ENOSPC if the debug
 * registers are in use, EAGAIN if there is currently no memory for the ring buffer. Async-signal-safe: yes. Threads:
 * any. */
int clinux_watchpoint_set(struct clinux_watchpoint *watchpoint, int32_t tid, uint64_t address);

/* Whether the thread has written since. Async-signal-safe: yes. Threads: any. */
bool clinux_watchpoint_is_hit(const struct clinux_watchpoint *watchpoint);

/* Removes the watchpoint. No effect if none is set. Async-signal-safe: yes. Threads: any. */
void clinux_watchpoint_clear(struct clinux_watchpoint *watchpoint);

#endif
