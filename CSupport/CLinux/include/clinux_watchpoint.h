/* Detects a thread's first write to a word, with the processor's debug registers (perf_event_open(2),
 * PERF_TYPE_BREAKPOINT). The first write is delayed by some microseconds; later writes are not. */
#ifndef CLINUX_WATCHPOINT_H
#define CLINUX_WATCHPOINT_H

#include "clinux_base.h"

/* Whether system calls of this process are filtered (seccomp(2)). Async-signal-safe: yes. Threads: any. */
bool clinux_calls_are_filtered(void);

/* All zero: no watchpoint is set. */
struct clinux_watchpoint {
  void *note; /* the kernel's ring buffer */
};

/* Watches the eight bytes at ADDRESS, a multiple of eight, for a write by thread TID. Returns 0 or an errno value:
 * EACCES or EPERM if the kernel refuses or system calls are filtered, ENOSPC if the debug registers are in use, EAGAIN
 * if there is no memory for the ring buffer. Async-signal-safe: yes. Threads: any. */
int clinux_watchpoint_set(struct clinux_watchpoint *watchpoint, int32_t tid, uint64_t address);

/* Whether the thread has written to the watched bytes. Async-signal-safe: yes. Threads: any. */
bool clinux_watchpoint_is_hit(const struct clinux_watchpoint *watchpoint);

/* Async-signal-safe: yes. Threads: any. */
void clinux_watchpoint_clear(struct clinux_watchpoint *watchpoint);

#endif
