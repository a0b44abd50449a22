/* Frames of a thread that hands an exception over. Internal to CUnwind.
 *
 * The compiler's unwinder hands an exception over by writing what the frame that handles it had saved over what its own
 * caller had (libgcc, uw_install_context): registers one by one, the return address last, then in its place or further
 * out the address of the handler. A thread that is interrupted just then seems to be in a mixture of both. Of its
 * registers none is believed; which frame it returns to is found by the return address. */
#ifndef EXCEPTION_HANDOVER_H
#define EXCEPTION_HANDOVER_H

#include "cursor.h"

enum handover {
  HANDOVER_NONE = 0, /* nothing of that kind: the frame is as it seems */
  HANDOVER_FOUND,    /* the frame is at the place that was found, and has no registers but its stack pointer */
  HANDOVER_LOST,     /* where the frame is cannot be told */
};

/* Finds out whether CALLEE, the frame number DEPTH from 1, may be an unwinder that hands an exception over, so that
 * CURSOR's frame, to which a step led from it, is not what it seems. Sets *SP and *RETURN_ADDRESS to where that is;
 * what is called there is at the address before *RETURN_ADDRESS. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
enum handover cunwind_handover(struct cursor *callee, struct cursor *cursor, uint32_t depth, uint64_t *sp,
                               uint64_t *return_address);

#endif
