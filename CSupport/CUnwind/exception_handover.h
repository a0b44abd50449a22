/* Frames of a thread that is transferring control to an exception handler.
 *
 * To enter a handler, the compiler's unwinder (libgcc, uw_install_context) copies the saved registers of the handler's
 * frame over those of the unwinder's caller, one by one, the return address last. Finally, the unwinder writes the
 * handler's address over this return address, or to a higher address on the stack. If the thread is sampled meanwhile,
 * its registers belong to either frame; only the return address is trusted. */
#ifndef EXCEPTION_HANDOVER_H
#define EXCEPTION_HANDOVER_H

#include "cursor.h"

enum handover {
  HANDOVER_NONE = 0, /* no transfer: the frame is as it appears */
  HANDOVER_FOUND,    /* the frame was found; only its stack pointer is known */
  HANDOVER_LOST,     /* the frame was not found */
};

/* Checks whether CALLEE, frame number DEPTH (from 1), might be an unwinder that is entering an exception handler.
 * CURSOR's frame, reached by a step from CALLEE, would then be misleading. Sets *SP and *RETURN_ADDRESS to the real
 * frame; the call instruction is at the address before *RETURN_ADDRESS. Async-signal-safe: as cunwind_unwind. Threads:
 * as cunwind_unwind. */
enum handover cunwind_handover(struct cursor *callee, struct cursor *cursor, uint32_t depth, uint64_t *sp,
                               uint64_t *return_address);

#endif
