#ifndef OBSERVER_COPY_H
#define OBSERVER_COPY_H

#include "base/observer_base.h"

#include "CUnwind.h"

/* Assumed size of a stack of unknown bounds. Only addresses within this distance of the stack pointer count as missing
 * from a truncated copy. */
#define OBSERVER_STACK_BYTES_USUAL (UINT64_C(8) << 20)

/* Returns the first address of SP's page. Memory below might be unmapped. Async-signal-safe: yes. Threads: any. */
static inline uint64_t observer_copy_page(uint64_t sp) { return sp & ~UINT64_C(4095); }

/* Maps BYTES bytes for copies of stacks, excluded from core files and children; NULL if there is no memory.
 * Async-signal-safe: no. Threads: any. */
uint8_t *observer_copy_map(size_t bytes);

/* Overwrites the stack contents in COPY. Async-signal-safe: yes. Threads: the owner of the copy. */
CLINUX_NO_LOCKS void observer_copy_wipe(const struct stack_copy *copy);

#endif
