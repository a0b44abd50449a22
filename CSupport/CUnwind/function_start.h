/* Functions without an entry in their module's unwind table: where they begin and end. Internal to CUnwind.
 *
 * Linkers sort the entries, and compilers leave out functions that need none to be unwound by exceptions. What lies
 * between two described functions is one such function after the other. The code between is gone through once, from the
 * end of the described function before it: a function ends where nothing goes on and no jump led beyond. */
#ifndef FUNCTION_START_H
#define FUNCTION_START_H

#include "walk.h"

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_function_starts_bytes(void);

/* Finds the function that has the code at ADDRESS, which its module does not describe. Returns false when it cannot be
 * told. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_function_around(struct unwinder *unwinder, uint64_t address, struct code_range *function);

/* The same, whether its module describes it or not. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind.
 */
bool cunwind_function_at(struct unwinder *unwinder, uint64_t address, struct code_range *function);

/* Forgets what was found out: modules may have been replaced.
 * Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_function_starts_forget(struct unwinder *unwinder);

#endif
