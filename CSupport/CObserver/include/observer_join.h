/* Joining stacks that end early with earlier ones of the same work.
 *
 * While a thread is at one work item the outer frames of its stack stay where they are. Where a stack cannot be followed any
 * further, but the copy still holds the return addresses of an earlier, complete stack at the places where that had them,
 * the earlier one's frames are the outer ones of this stack, too.
 *
 * What a call left behind that is over looks the same. So a frame is joined with if that it is alive is shown from outside, by
 * calls that can have led to one function only; from inside, by the frame pointers that lead to it; or if no other return
 * address lies between it and where the stack ended. */
#ifndef OBSERVER_JOIN_H
#define OBSERVER_JOIN_H

#include "observer_base.h"
#include "observer_unwind.h"

/* Whose stack it is: stacks of different ones have nothing in common. */
struct observer_work_item {
  uint32_t slot, generation;
  uint64_t unit; /* 0: none, whose stacks are neither kept nor joined */
  int32_t tid;
};

/* Keeps STACK, which was unwound from COPY with its places, for the calling thread's context if it is complete. If it is not, adds
 * the outer frames of the last complete one of ITEM, as far as they are still there: STACK says from which frame on it
 * was joined, and ends as that did.
 * Async-signal-safe: no, but as observer_unwind. Threads: as observer_unwind. */
OBSERVER_NO_LOCKS void observer_join(const struct observer_copy *copy, struct observer_work_item item,
                                     struct observer_stack *stack);

#endif
