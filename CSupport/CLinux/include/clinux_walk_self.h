/* The calling thread's own stack. Not used on the observing path. */
#ifndef CLINUX_WALK_SELF_H
#define CLINUX_WALK_SELF_H

#include "clinux_base.h"

/* Stores up to COUNT return addresses of the calling thread's stack in ADDRESSES, innermost first. Returns their
 * number. Uses backtrace(3), which unwinds as for exceptions. Async-signal-safe: no (locks, and might allocate).
 * Threads: any. */
size_t clinux_walk_self(uint64_t *addresses, size_t count);

#endif
