/* Keeps memory resident that must be usable even if no disk can be read. */
#ifndef CLINUX_RESIDENCY_H
#define CLINUX_RESIDENCY_H

#include "clinux_base.h"

/* A range of resident pages. */
struct clinux_resident {
  uint64_t start;
  uint64_t bytes; /* 0: none, because the process is not allowed to lock memory */
};

/* Keeps the pages of the BYTES bytes at START resident, each from its first use, until clinux_let_go_resident. Uses at
 * most a quarter of RLIMIT_MEMLOCK in total. Async-signal-safe: no. Threads: any. */
struct clinux_resident clinux_keep_resident(const void *start, size_t bytes);

/* Removes KEPT from the total, so other memory can be kept instead. Must be called when the memory is freed. The kernel
 * keeps the pages until they are unmapped: unlocking them would undo the service's mlockall(2), because the next thread
 * might get the same stack. Async-signal-safe: yes. Threads: any. */
void clinux_let_go_resident(struct clinux_resident kept);

/* Resets the total to 0 in a child of fork(2), which does not inherit memory locks (mlock(2)). Must be called before
 * memory is kept. Async-signal-safe: yes. Threads: any. */
void clinux_residency_start_over(void);

/* Loads the code from FIRST to LAST, limited to the module's code around its middle, into memory and keeps it resident.
 * If locking is not allowed, only loads it. Returns whether it is kept. Async-signal-safe: no. Threads: any. */
bool clinux_keep_code_resident(uint64_t first, uint64_t last);

/* Keeps the next 32 KiB of the calling thread's stack resident, AT_ONCE or each page from its first use, until
 * clinux_let_go_resident: the C library reuses the stack of a finished thread for the next one. Async-signal-safe: no.
 * Threads: any. */
struct clinux_resident clinux_keep_stack_resident(bool at_once);

#endif
