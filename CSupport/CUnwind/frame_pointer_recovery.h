/* Recovers the frame pointer of a blocked thread, of which the kernel gives only the stack pointer and program counter:
 * searches the stack for a frame record (saved frame pointer, return address) whose return address follows a call of
 * the blocked function. */
#ifndef FRAME_POINTER_RECOVERY_H
#define FRAME_POINTER_RECOVERY_H

#include "cursor.h"

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_frame_pointer_search_bytes(void);

/* Finds the unknown frame pointer of CURSOR's frame. Returns false if there is no candidate or more than one: a
 * truncated stack is better than a wrong one. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_recover_frame_pointer(const struct cursor *cursor, bool interrupted, uint64_t *found);

#endif
