/* The modules that code was looked up in: what is learnt about code holds for as long as they are what they were.
 *
 * A module is known by where it is and by its build-id, which linkers make of all that is in it. Where one without a
 * build-id was met, or code in no module, what was learnt may be about something else by the next look. Internal to
 * CUnwind. */
#ifndef KNOWN_MODULES_H
#define KNOWN_MODULES_H

#include "walk.h"

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_modules_bytes(void);

/* Notes that MODULE was met. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_module_met(struct unwinder *unwinder, const struct unwind_module *module);

/* Whether what is at ADDRESS can change with its module alone: a segment that is not writable. Notes that its module
 * was met. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_is_constant(struct unwinder *unwinder, uint64_t address);

/* Notes that something was learnt about code that is not constant.
 * Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_learnt_elsewhere(struct unwinder *unwinder);

/* Whether all modules that were met are what they were, and nothing was learnt elsewhere.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_modules_remain(struct unwinder *unwinder);

/* Forgets them. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_modules_forget(struct unwinder *unwinder);

#endif
