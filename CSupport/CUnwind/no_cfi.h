/* Frames of functions that nothing describes: code that was made at run time, assembly, what compilers leave without
 * unwind information. Internal to CUnwind. */
#ifndef NO_CFI_H
#define NO_CFI_H

#include "cursor.h"

/* What is known of the caller of such a function: the other registers are not. */
struct caller_frame {
  uint64_t return_address;
  uint64_t sp;
  uint64_t frame_pointer;
  bool has_frame_pointer; /* whether FRAME_POINTER is known */
};

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_no_cfi_bytes(void);

/* Whether ADDRESS, which is in no module, follows a call.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_follows_call(struct unwinder *unwinder, uint64_t address);

/* Finds the caller of the function that CURSOR is in at PC, which was INTERRUPTED or made a call, and which nothing
 * describes, or whose description nothing can use. What its code shows goes first: where it has its return address on
 * all paths from its beginning, and where it will have it on all paths to its return. Otherwise its frame pointer must
 * lead to a return address that it can have come from, and nothing on the way there may look like the return address of
 * a function that keeps no frame pointer: then that would be the frame, and the frame pointer its caller's. Returns
 * false when it cannot be told; its walk may say why. A return address of 0 is the outermost frame's.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_no_cfi_caller(struct cursor *cursor, uint64_t pc, bool interrupted, struct caller_frame *caller);

#endif
