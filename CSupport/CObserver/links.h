/* Links between frames: whether a return address is one of a call of a certain function. Internal to the observer. */
#ifndef LINKS_H
#define LINKS_H

#include "observer_arch.h"

/* What kind of call ends at RETURN_ADDRESS, and whether it is one of the function that begins at FUNCTION: directly or
 * through a linkage stub.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
enum observer_call_kind observer_link_before(uint64_t return_address, uint64_t function, bool *of_function);

#endif
