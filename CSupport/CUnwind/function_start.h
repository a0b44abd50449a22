/* Finds the bounds of functions without an entry in their module's unwind table.
 *
 * Compilers write no entries for functions that exceptions cannot pass through, so the gap between two described
 * functions holds only functions without entries. A function ends where execution cannot continue, unless one of its
 * jumps leads beyond that address. */
#ifndef FUNCTION_START_H
#define FUNCTION_START_H

#include "walk.h"

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_function_starts_bytes(void);

/* Finds the function around ADDRESS, which no unwind table describes. Returns false if the bounds are unknown.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_function_around(struct unwinder *unwinder, uint64_t address, struct code_range *function);

/* Finds the function around ADDRESS, described by an unwind table or not. Returns false if the bounds are unknown.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_function_at(struct unwinder *unwinder, uint64_t address, struct code_range *function);

/* Clears cached answers. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_function_starts_forget(struct unwinder *unwinder);

#endif
