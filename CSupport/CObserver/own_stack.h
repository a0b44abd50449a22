/* The suspended part of a thread's own stack while it runs on another one. Internal to the observer. */
#ifndef OWN_STACK_H
#define OWN_STACK_H

#include "observer_copy.h"

/* Completes COPY, a copy of another stack than the thread's own (LOW to HIGH; 0 if unknown), in the CAPACITY bytes at
 * STACK: if a signal frame in it leads back to the thread's own stack, that stack is also copied from there on. If
 * necessary it replaces the outer half of the other stack. Async-signal-safe: yes. Threads: the copied one, or a
 * sampler while that one is blocked. */
void observer_copy_own_stack(struct stack_copy *copy, uint8_t *stack, size_t capacity, uint64_t low, uint64_t high);

#endif
