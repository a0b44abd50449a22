/* Functions without an entry in their module's unwind table: where they begin and end. Internal to the observer.
 *
 * Linkers sort the entries, and compilers leave out functions that need none to be unwound by exceptions. What lies between two
 * described functions is one such function after the other. The code between is gone through once, from the end of the
 * described function before it: a function ends where nothing goes on and no jump led beyond. */
#ifndef FUNCTION_START_H
#define FUNCTION_START_H

#include "code.h"
#include "unwind_walk.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* Reads the instruction at ADDRESS and takes it apart as observer_code_decode does. Returns its length, or 0 when it cannot
 * be read or is not known. What follows it need not be readable.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
size_t observer_code_read(uint64_t address, struct code_operation *operations, int *count);

/* Finds the function that has the code at ADDRESS, which its module does not describe. Returns false when it cannot be told.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_function_around(uint64_t address, struct code_range *function);

/* Forgets what was found out: modules may have been replaced.
 * Async-signal-safe: yes. Threads: as observer_unwind. */
void observer_function_starts_forget(void);

#endif
#endif
