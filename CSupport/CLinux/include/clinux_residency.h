/* Keeping in memory what must work when nothing can be read from a disk. */
#ifndef CLINUX_RESIDENCY_H
#define CLINUX_RESIDENCY_H

#include "clinux_base.h"

/* Keeps the pages of the BYTES bytes at START in memory from when each is first used, until they are unmapped. Returns
 * whether the process may: a quarter of RLIMIT_MEMLOCK is used at most. Async-signal-safe: no. Threads: any. */
bool clinux_keep_resident(const void *start, size_t bytes);

/* Brings the code around ADDRESS, BYTES of it on either side as far as its module's code goes, into memory and keeps it
 * there. Where the process may not, it is only brought there. Returns whether it is kept.
 * Async-signal-safe: no. Threads: any. */
bool clinux_keep_code_resident(uint64_t address, size_t bytes);

/* Keeps the next 32 KiB of the calling thread's stack in memory, AT_ONCE or from when each page is first used. Returns
 * whether the process may. Async-signal-safe: no. Threads: any. */
bool clinux_keep_stack_resident(bool at_once);

#endif
