/* Unwinding in this process: one unwinder (CUnwind) for each context, which reads memory and finds modules with
 * CLinux. */
#ifndef OBSERVER_UNWIND_H
#define OBSERVER_UNWIND_H

#include "observer_base.h"

#include "CUnwind.h"

/* Creates an unwinder for the calling thread's context. Repeated calls have no effect, except in a child process.
 * Returns NULL, or a sentence that explains the failure (static storage, never freed). Async-signal-safe: no. Threads:
 * any, one at a time. */
const char *observer_unwind_start(void);

/* Creates an unwinder for the calling thread's context, after observer_unwind_start has returned NULL. Returns as
 * observer_unwind_start does. Async-signal-safe: no. Threads: any. */
const char *observer_unwind_prepare(void);

/* Unwinds COPY into STACK, and measures the time (cunwind_unwind). Async-signal-safe: yes. Threads: one at a time in
 * each context, after observer_unwind_start or observer_unwind_prepare has returned NULL there. */
CLINUX_NO_LOCKS void observer_unwind(const struct stack_copy *copy, struct unwind_stack *stack);

/* Joins STACK, which was unwound from COPY with its places, with an earlier stack of ITEM (cunwind_join).
 * Async-signal-safe: as observer_unwind. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_join(const struct stack_copy *copy, struct unwind_work_item item,
                                   struct unwind_stack *stack);

/* Clears cached facts about code unless all modules are unchanged (cunwind_begin_look). Must be called before a stall
 * is sampled. Async-signal-safe: as observer_unwind. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_unwind_begin_look(void);

/* Wipes writable memory cached by the calling thread's unwinder (cunwind_wipe). Async-signal-safe: yes. Threads: as
 * observer_unwind. */
CLINUX_NO_LOCKS void observer_unwind_wipe(void);

#endif
