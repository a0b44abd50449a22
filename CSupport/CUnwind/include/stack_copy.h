/* A copied stack: what unwinding begins with. */
#ifndef STACK_COPY_H
#define STACK_COPY_H

#include "unwind_registers.h"

struct stack_copy {
  struct unwind_registers registers;
  uint64_t stack_start; /* the address that the first byte of the copy had: the stack pointer less the red zone */
  uint64_t stack_bytes; /* length of the copy */
  uint64_t stack_end;   /* one past the stack's highest address; a generous guess where that is not known */
  bool truncated;       /* the stack goes on beyond the copy */
  /* Only on another stack than the thread's own: an alternate one for signals, a coroutine's. */
  uint64_t own_low; /* the bounds of the thread's own stack, 0 if they are not known */
  uint64_t own_end;
  uint64_t own_start; /* from where on it was copied, too, because a signal's frame leads there; */
  uint64_t own_bytes; /* how much of it: behind the STACK_BYTES of the other one */
  /* For whoever looks for async callers: the task that the thread ran, 0 if none is known, and its newest allocation.
   */
  uint64_t task;
  uint64_t task_allocation;
  int32_t blocked_tid; /* the thread, where that was blocked; it had used so much processor time */
  uint64_t blocked_used_ns;
  uint64_t taken_ns;    /* when it was made, CLOCK_MONOTONIC */
  uint64_t handler_ns;  /* time spent in the handler */
  const uint8_t *stack; /* the copy; belongs to whoever made it */
  uint32_t request;     /* for whoever made it: which request it is the answer to; UINT32_MAX: none */
};

#endif
