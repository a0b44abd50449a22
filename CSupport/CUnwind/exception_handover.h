/* Frames of a thread that hands an exception over. Internal to CUnwind.
 *
 * The compiler's unwinder hands an exception over by writing what the function that handles it had saved over what its
 * own caller had (libgcc, uw_install_context): registers one by one, then the return address. A thread that is
 * interrupted just then seems to be in a mixture of both. */
#ifndef EXCEPTION_HANDOVER_H
#define EXCEPTION_HANDOVER_H

#include "cursor.h"

/* What is thought of the frame pointer on the path outwards. */
enum trust {
  TRUST_ALL = 0,
  TRUST_NO_FRAME_POINTER = 1, /* it may be that of the function that handles an exception */
  TRUST_NOTHING = 2,          /* it is; or the return address is */
};

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_handover_bytes(void);

/* What is thought of CURSOR's frame, to which a step led from CALLEE's, the frame number DEPTH from 1, which was
 * thought of as BEFORE says. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
enum trust cunwind_trust_after(struct cursor *callee, struct cursor *cursor, enum trust before, uint32_t depth);

/* Finds the frame pointer of CURSOR's frame, which is in a call, by how far its function keeps it from the stack
 * pointer. Returns false when its code does not tell. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind.
 */
bool cunwind_frame_pointer_by_code(struct cursor *cursor, uint64_t *frame_pointer);

#endif
