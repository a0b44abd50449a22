/* Determines the use of the frame pointer from a function's first instructions, in case unwind tables cannot be
 * trusted. */
#ifndef PROLOGUE_H
#define PROLOGUE_H

#include "walk.h"

/* Whether the call before RETURN_ADDRESS calls the function that begins at FUNCTION: directly, through a PLT stub or
 * through the global offset table. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_calls(struct unwinder *unwinder, uint64_t return_address, uint64_t function);

/* Whether FRAME_POINTER belongs to a frame of the function that begins at FUNCTION, given its stack pointer SP at a
 * call and its return address RETURN_ADDRESS. False in case of doubt. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
bool cunwind_frame_pointer_fits(struct unwinder *unwinder, uint64_t function, uint64_t sp, uint64_t frame_pointer,
                                uint64_t return_address);

#endif
