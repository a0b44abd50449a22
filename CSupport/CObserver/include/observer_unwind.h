/* Unwinding in this process: an unwinder (CUnwind) for each context, which reads memory and finds modules as the
 * observer does. */
#ifndef OBSERVER_UNWIND_H
#define OBSERVER_UNWIND_H

#include "observer_base.h"

#include "CUnwind.h"

/* Loads libunwind and makes an unwinder for the calling thread's context. Further calls do nothing, but in a child of
 * the process. Returns NULL, or a sentence about what is missing (static storage, never freed). Async-signal-safe: no.
 * Threads: any, one at a time. */
const char *observer_unwind_start(void);

/* Makes an unwinder for the calling thread's context, once observer_unwind_start has returned NULL. Its caches are
 * large if IS_FIRST, and take half a mebibyte then. Returns as observer_unwind_start does. Async-signal-safe: no.
 * Threads: any. */
const char *observer_unwind_prepare(bool is_first);

/* Unwinds COPY into STACK, and measures how long that took (cunwind_unwind).
 * Async-signal-safe: no, but takes no lock that another thread can hold, and maps memory at most. Threads: one at a
 * time in each context, once observer_unwind_start or observer_unwind_prepare has returned NULL there. */
CLINUX_NO_LOCKS void observer_unwind(const struct stack_copy *copy, struct unwind_stack *stack);

/* Joins STACK, which was unwound from COPY with its places, with an earlier one of ITEM (cunwind_join).
 * Async-signal-safe: as observer_unwind. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_join(const struct stack_copy *copy, struct unwind_work_item item,
                                   struct unwind_stack *stack);

/* Forgets what was learnt about code, unless all modules are what they were (cunwind_begin_look). To be called before a
 * stall is sampled. Async-signal-safe: as observer_unwind. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_unwind_begin_look(void);

/* Wipes what the calling thread's unwinder has read of memory that threads write to (cunwind_wipe).
 * Async-signal-safe: yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_unwind_wipe(void);

#endif
