/* Room for copies of stacks. */
#ifndef OBSERVER_COPY_H
#define OBSERVER_COPY_H

#include "observer_base.h"

#include "CUnwind.h"

/* How far a stack of unknown bounds is taken to go: the usual limit. Only addresses that near to a truncated copy count
 * as its missing part. */
#define OBSERVER_STACK_BYTES_USUAL (UINT64_C(8) << 20)

/* The first address of the page that SP is in. What lies below it may not be mapped: the red zone of a stack that has
 * not grown that far. Async-signal-safe: yes. Threads: any. */
static inline uint64_t observer_copy_page(uint64_t sp) { return sp & ~UINT64_C(4095); }

/* Maps room for copies of stacks, BYTES of it, which neither core files nor children have; NULL when there is none.
 * Async-signal-safe: no. Threads: any. */
uint8_t *observer_copy_map(size_t bytes);

/* Overwrites what COPY has of stacks. Async-signal-safe: yes. Threads: whose copy it is. */
CLINUX_NO_LOCKS void observer_copy_wipe(const struct stack_copy *copy);

#endif
