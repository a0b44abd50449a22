#ifndef OWN_STACK_H
#define OWN_STACK_H

#include "capture/observer_copy.h"

/* Adds the thread's own stack (LOW to HIGH; 0: unknown) to COPY, which contains another stack in the CAPACITY bytes at
 * STACK. The added part begins at the stack pointer in a signal frame of COPY. If space is missing, the added part
 * replaces the outer half of the other stack. Async-signal-safe: yes. Threads: the copied one, or a sampler while that
 * one is blocked. */
void observer_copy_own_stack(struct stack_copy *copy, uint8_t *stack, size_t capacity, uint64_t low, uint64_t high);

#endif
