#ifndef STACK_COPY_H
#define STACK_COPY_H

#include "unwind_registers.h"

struct stack_copy {
  struct unwind_registers registers;
  uint64_t stack_start; /* original address of the first copied byte: the stack pointer minus the red zone */
  uint64_t stack_bytes; /* length of the copy */
  uint64_t stack_end;   /* one past the stack's highest address; a generous guess if unknown */
  bool truncated;       /* the stack continues beyond the copy */
  /* Set only if the thread was on another stack than its own: an alternate signal stack or a coroutine's stack. */
  uint64_t own_low; /* the bounds of the thread's own stack, 0 if unknown */
  uint64_t own_end;
  uint64_t own_start; /* first copied address of the thread's own stack, to which a signal frame leads */
  uint64_t own_bytes; /* bytes copied from the thread's own stack, stored after the STACK_BYTES of the other stack */
  /* For the search for async callers: the task that the thread ran, 0 if unknown, and its newest allocation. */
  uint64_t task;
  uint64_t task_allocation;
  int32_t blocked_tid; /* the thread ID if the thread was blocked; the next field is its CPU time */
  uint64_t blocked_used_ns;
  uint64_t taken_ns;   /* time of the copy, CLOCK_MONOTONIC */
  uint64_t handler_ns; /* time spent in the handler */
  const uint8_t *stack;
  uint32_t request; /* for the creator: number of the request that this copy answers; UINT32_MAX: none */
};

#endif
