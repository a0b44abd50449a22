/* The modules of all code on which cached facts depend, identified by address and build ID. */
#ifndef KNOWN_MODULES_H
#define KNOWN_MODULES_H

#include "walk.h"

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_modules_bytes(void);

/* Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_module_met(struct unwinder *unwinder, const struct unwind_module *module);

/* Whether ADDRESS is in a read-only segment, whose contents can change only with the module. Records the module.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_is_constant(struct unwinder *unwinder, uint64_t address);

/* Records that a fact depends on code that is not constant. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_learnt_elsewhere(struct unwinder *unwinder);

/* Whether all recorded modules are unchanged and no fact depends on other code. Async-signal-safe: as cunwind_unwind.
 * Threads: as cunwind_unwind. */
bool cunwind_modules_remain(struct unwinder *unwinder);

/* Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_modules_forget(struct unwinder *unwinder);

#endif
