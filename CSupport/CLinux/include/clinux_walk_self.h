#ifndef CLINUX_WALK_SELF_H
#define CLINUX_WALK_SELF_H

#include "clinux_base.h"

/* Stores up to COUNT (at most 128) return addresses of the calling thread's stack in ADDRESSES, innermost first
 * (backtrace(3)). Returns their number. Async-signal-safe: no (locks, and might allocate). Threads: any. */
size_t clinux_walk_self(uint64_t *addresses, size_t count);

#endif
