#ifndef OBSERVER_UNWIND_H
#define OBSERVER_UNWIND_H

#include "base/observer_base.h"

#include "CUnwind.h"

/* Creates an unwinder for the calling thread's context, if necessary. Returns NULL, or a static sentence that explains
 * the failure. Async-signal-safe: no. Threads: any, one at a time. */
const char *observer_unwind_start(void);

/* As observer_unwind_start, for a context after the first. Async-signal-safe: no. Threads: any. */
const char *observer_unwind_prepare(void);

/* Unwinds COPY into STACK (cunwind_unwind). Async-signal-safe: yes. Threads: one at a time in each context, after
 * observer_unwind_start or observer_unwind_prepare has returned NULL there. */
CLINUX_NO_LOCKS void observer_unwind(const struct stack_copy *copy, struct unwind_stack *stack);

/* Joins STACK, unwound from COPY, with an earlier stack of ITEM (cunwind_join). Async-signal-safe: as observer_unwind.
 * Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_join(const struct stack_copy *copy, struct unwind_work_item item,
                                   struct unwind_stack *stack);

/* Clears cached facts about code if modules have changed (cunwind_begin_sample). Called before a stall is sampled.
 * Async-signal-safe: as observer_unwind. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_unwind_begin_sample(void);

/* Wipes cached writable memory (cunwind_wipe). Async-signal-safe: yes. Threads: as observer_unwind. */
CLINUX_NO_LOCKS void observer_unwind_wipe(void);

#endif
