/* A blocked thread that is read from outside gives its stack pointer and program counter only. That is enough for
 * frames that are described relative to the stack pointer; the first one that is not needs the frame pointer. Its value
 * is found on the stack: it is the address of a frame record (saved frame pointer, return address), whose return
 * address follows a call of the function that the frame belongs to. Internal to CUnwind. */
#ifndef FRAME_POINTER_RECOVERY_H
#define FRAME_POINTER_RECOVERY_H

#include "cursor.h"

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_frame_pointer_search_bytes(void);

/* Finds the frame pointer of CURSOR's frame, which its walk does not know. Returns false when there is none, or more
 * than one that could be it: a stack that ends is better than one that is invented. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_recover_frame_pointer(const struct cursor *cursor, bool interrupted, uint64_t *found);

#endif
