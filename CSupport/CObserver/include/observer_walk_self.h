/* The calling thread's own stack. Not on the observing path. */
#ifndef OBSERVER_WALK_SELF_H
#define OBSERVER_WALK_SELF_H

#include "observer_base.h"

/* Puts up to COUNT return addresses of the calling thread's stack into ADDRESSES, innermost first. Returns how many. By
 * backtrace(3): as exceptions are unwound.
 * Async-signal-safe: no (locks, and may allocate). Threads: any. */
size_t observer_walk_self(uint64_t *addresses, size_t count);

#endif
