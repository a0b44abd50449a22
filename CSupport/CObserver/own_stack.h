/* The part of its own stack that a thread has left behind on another one. Internal to the observer. */
#ifndef OWN_STACK_H
#define OWN_STACK_H

#include "observer_copy.h"

/* Completes COPY, which is of another stack than the thread's own (LOW to HIGH; 0 if unknown), in the CAPACITY bytes at
 * STACK: when a signal's frame in it leads back to the thread's own stack, that is copied, too, from there on. It takes
 * the place of the other stack's outer half if need be. Async-signal-safe: yes. Threads: the one whose stack it is, or
 * the monitor while that one is blocked. */
void observer_copy_own_stack(struct stack_copy *copy, uint8_t *stack, size_t capacity, uint64_t low, uint64_t high);

#endif
