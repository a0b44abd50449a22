/* One unwinder (CUnwind) for each context of this process. */
#ifndef OBSERVER_UNWIND_H
#define OBSERVER_UNWIND_H

#include "observer_base.h"

#include "CUnwind.h"

/* Creates an unwinder for the calling thread's context, unless this process has one for it. Returns NULL, or a static
 * sentence that explains the failure. Async-signal-safe: no. Threads: any, one at a time. */
const char *observer_unwind_start(void);

/* Creates an unwinder for another context, after observer_unwind_start has returned NULL; returns as
 * observer_unwind_start does. Async-signal-safe: no. Threads: any. */
const char *observer_unwind_prepare(void);

/* Unwinds COPY into STACK and measures the time (cunwind_unwind). Async-signal-safe: yes. Threads: one at a time in
 * each context, after observer_unwind_start or observer_unwind_prepare has returned NULL there. */
CLINUX_NO_LOCKS void observer_unwind(const struct stack_copy *copy, struct unwind_stack *stack);

/* Joins STACK, unwound from COPY, with an earlier stack of ITEM (cunwind_join). Async-signal-safe: as observer_unwind.
 * Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_join(const struct stack_copy *copy, struct unwind_work_item item,
                                   struct unwind_stack *stack);

/* Clears cached facts about code if modules have changed (cunwind_begin_look). Called before a stall is sampled.
 * Async-signal-safe: as observer_unwind. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_unwind_begin_look(void);

/* Wipes writable memory cached by the calling thread's unwinder (cunwind_wipe). Async-signal-safe: yes. Threads: as
 * observer_unwind. */
CLINUX_NO_LOCKS void observer_unwind_wipe(void);

#endif
