/* Frame pointers, where unwind tables are missing or not to be trusted. Internal to the observer. */
#ifndef FRAME_WALK_H
#define FRAME_WALK_H

#include "observer_base.h"

/* Reads LENGTH bytes of the process at ADDRESS; returns false when they cannot be read. */
typedef bool (*frame_read)(uint64_t address, void *destination, size_t length);

/* Whether the call before RETURN_ADDRESS is one of the function that begins at FUNCTION: directly, through a linkage
 * stub or through the loader's table. Async-signal-safe: as READ. Threads: as READ. */
bool frame_called(frame_read read, uint64_t return_address, uint64_t function);

/* Whether FRAME_POINTER belongs to a frame of the function that begins at FUNCTION, given the stack pointer SP at which
 * that function made a call, and the address RETURN_ADDRESS that it will itself return to. False in case of doubt.
 * Async-signal-safe: as READ. Threads: as READ. */
bool frame_pointer_fits(frame_read read, uint64_t function, uint64_t sp, uint64_t frame_pointer,
                        uint64_t return_address);

#endif
