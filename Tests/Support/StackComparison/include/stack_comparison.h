/* Comparison of two stacks of one blocked thread: read from outside, and captured by a signal. */
#ifndef STACK_COMPARISON_H
#define STACK_COMPARISON_H

#include "unwind_stack.h"

enum stack_comparison {
  STACK_EQUAL, /* the same frames and the same end */
  STACK_CUT,   /* fewer frames, and marked as incomplete */
  STACK_WRONG  /* anything else */
};

/* Compares the stack read from outside with the one captured by a signal. The innermost addresses can differ by the
 * length of a system call instruction: the kernel resets an interrupted call to that instruction. */
enum stack_comparison stack_compare(const struct unwind_stack *outside, const struct unwind_stack *signalled);

#endif
