#ifndef OWN_STACK_H
#define OWN_STACK_H

#include "capture/observer_copy.h"

/* Completes COPY, of another stack than the thread's own (LOW to HIGH; 0: unknown), in the CAPACITY bytes at STACK:
 * copies the own stack from where a signal frame leads back to it, if necessary instead of the outer half of the other
 * stack. Async-signal-safe: yes. Threads: the copied one, or a sampler while that one is blocked. */
void observer_copy_own_stack(struct stack_copy *copy, uint8_t *stack, size_t capacity, uint64_t low, uint64_t high);

#endif
