/* A blocked thread that is read from outside gives its stack pointer and program counter only. That is enough for frames
 * that are described relative to the stack pointer; the first one that is not needs the frame pointer. Its value is found
 * on the stack: it is the address of a frame record (saved frame pointer, return address), whose return address follows a
 * call of the function that the frame belongs to. Internal to the observer. */
#ifndef FRAME_POINTER_H
#define FRAME_POINTER_H

#include "unwind_walk.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* Finds the frame pointer of CURSOR's frame, which WALK does not know. Returns false when there is none, or more than one
 * that could be it: a stack that ends is better than one that is invented.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_find_frame_pointer(struct walk *walk, const unw_cursor_t *cursor, bool interrupted, uint64_t *found);

#endif
#endif
