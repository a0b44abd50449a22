/* Frames of functions that nothing describes: code that was made at run time, assembly, what compilers leave without unwind
 * information. Internal to the observer. */
#ifndef UNDESCRIBED_H
#define UNDESCRIBED_H

#include "unwind_walk.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* What is known of the caller of such a function: the other registers are not. */
struct observer_caller {
  uint64_t return_address;
  uint64_t sp;
  uint64_t frame_pointer;
  bool has_frame_pointer; /* whether FRAME_POINTER is known */
};

/* Whether ADDRESS, which is in no module, follows a call.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_undescribed_returned_to(uint64_t address);

/* Finds the caller of the function that CURSOR is in at PC, which was INTERRUPTED or made a call, and which neither a module's
 * unwind information nor anything else describes. What its code shows goes first: where it has its return address on all
 * ways from its beginning, and where it will have it on all ways to its return. Otherwise its frame pointer must lead to a
 * return address that it can have come from, and nothing on the way there may look like the return address of a function that
 * keeps no frame pointer: then that would be the frame, and the frame pointer its caller's.
 * Returns false when it cannot be told; WALK may say why. A return address of 0 is the outermost frame's.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_undescribed_caller(struct walk *walk, unw_cursor_t *cursor, uint64_t pc, bool interrupted,
                                 bool trust_frame_pointer, struct observer_caller *caller);

#endif
#endif
