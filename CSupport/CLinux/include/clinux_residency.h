/* Keeping in memory what must work when nothing can be read from a disk. */
#ifndef CLINUX_RESIDENCY_H
#define CLINUX_RESIDENCY_H

#include "clinux_base.h"

/* Pages that are kept in memory. */
struct clinux_resident {
  uint64_t start;
  uint64_t bytes; /* 0: none, because the process may not */
};

/* Keeps the pages of the BYTES bytes at START in memory from when each is first used, until they are let go. Not more
 * than a quarter of RLIMIT_MEMLOCK is used in all. Async-signal-safe: no. Threads: any. */
struct clinux_resident clinux_keep_resident(const void *start, size_t bytes);

/* Counts KEPT no longer: others may be kept instead. To be called when its memory is given back. The kernel keeps the
 * pages until they are unmapped: to unlock them would undo mlockall(2) of the service's, whose next thread may get the
 * same stack. Async-signal-safe: yes. Threads: any. */
void clinux_let_go_resident(struct clinux_resident kept);

/* In a child of fork(2), before anything is kept: nothing is, as the kernel leaves locks to the parent (mlock(2)).
 * Async-signal-safe: yes. Threads: any. */
void clinux_residency_start_over(void);

/* Brings the code around ADDRESS, BYTES of it on either side as far as its module's code goes, into memory and keeps it
 * there. Where the process may not, it is only brought there. Returns whether it is kept.
 * Async-signal-safe: no. Threads: any. */
bool clinux_keep_code_resident(uint64_t address, size_t bytes);

/* Keeps the next 32 KiB of the calling thread's stack in memory, AT_ONCE or from when each page is first used, until it
 * is let go: the C library gives the memory of a thread that has ended to the next one. Async-signal-safe: no.
 * Threads: any. */
struct clinux_resident clinux_keep_stack_resident(bool at_once);

#endif
