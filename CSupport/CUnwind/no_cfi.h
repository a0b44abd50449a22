#ifndef NO_CFI_H
#define NO_CFI_H

#include "cursor.h"

struct caller_frame {
  uint64_t return_address;
  uint64_t sp;
  uint64_t frame_pointer;
  bool has_frame_pointer;
};

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_no_cfi_bytes(void);

/* Whether ADDRESS, which is in no module, follows a call. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
bool cunwind_follows_call(struct unwinder *unwinder, uint64_t address);

/* Finds the caller of CURSOR's frame at PC, which was INTERRUPTED or made a call and has no usable unwind information.
 * Code analysis takes precedence: the location of the return address must be the same on all paths from the function's
 * beginning, or on all paths to its return. If code analysis has no result, the frame pointer must lead to a plausible
 * return address. Returns false if the caller is unknown; the walk might record the reason. A return address of 0 marks
 * the outermost frame. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_no_cfi_caller(struct cursor *cursor, uint64_t pc, bool interrupted, struct caller_frame *caller);

#endif
