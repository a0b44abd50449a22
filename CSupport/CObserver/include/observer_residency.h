/* Keeping in memory what must work when nothing can be read from a disk. */
#ifndef OBSERVER_RESIDENCY_H
#define OBSERVER_RESIDENCY_H

#include "observer_base.h"

/* Keeps the pages of the BYTES bytes at START in memory from when each is first used, until they are unmapped. Returns
 * whether the process may: a quarter of RLIMIT_MEMLOCK is used at most. Async-signal-safe: no. Threads: any. */
bool observer_keep_resident(const void *start, size_t bytes);

/* Brings the code around ADDRESS, BYTES of it on either side as far as its module's code goes, into memory and keeps it
 * there. Where the process may not, it is only brought there. Returns whether it is kept.
 * Async-signal-safe: no. Threads: any. */
bool observer_keep_code_resident(uint64_t address, size_t bytes);

/* The same for the C code of the observer that runs on the monitor's and the warden's thread and in handlers, and for
 * the functions of the C library that it calls. Async-signal-safe: no. Threads: any. */
bool observer_keep_own_code_resident(void);

/* Keeps the next 32 KiB of the calling thread's stack in memory. Returns whether the process may.
 * Async-signal-safe: no. Threads: any. */
bool observer_keep_stack_resident(void);

#endif
