/* The calling thread's own stack. Not on the observing path. */
#ifndef CLINUX_WALK_SELF_H
#define CLINUX_WALK_SELF_H

#include "clinux_base.h"

/* Puts up to COUNT return addresses of the calling thread's stack into ADDRESSES, innermost first. Returns how many. By
 * backtrace(3): as exceptions are unwound.
 * Async-signal-safe: no (locks, and may allocate). Threads: any. */
size_t clinux_walk_self(uint64_t *addresses, size_t count);

#endif
