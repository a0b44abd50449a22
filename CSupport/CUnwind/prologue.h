/* Whether a call leads to a given function. */
#ifndef PROLOGUE_H
#define PROLOGUE_H

#include "walk.h"

/* Whether the call before RETURN_ADDRESS calls the function that begins at FUNCTION: directly, through a PLT stub or
 * through the global offset table. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_calls(struct unwinder *unwinder, uint64_t return_address, uint64_t function);

#endif
