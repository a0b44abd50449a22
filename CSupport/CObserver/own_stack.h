#ifndef OWN_STACK_H
#define OWN_STACK_H

#include "observer_copy.h"

/* Completes COPY, whose stack is not the thread's own (LOW to HIGH; 0: unknown), in the CAPACITY bytes at STACK. Adds
 * the own stack from the stack pointer in a signal frame on, if necessary instead of the outer half of the copied
 * stack. Async-signal-safe: yes. Threads: the copied one, or a sampler while that one is blocked. */
void observer_copy_own_stack(struct stack_copy *copy, uint8_t *stack, size_t capacity, uint64_t low, uint64_t high);

#endif
