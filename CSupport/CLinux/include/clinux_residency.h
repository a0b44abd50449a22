/* Keeps memory resident that is needed even if no disk can be read. */
#ifndef CLINUX_RESIDENCY_H
#define CLINUX_RESIDENCY_H

#include "clinux_base.h"

struct clinux_resident {
  uint64_t start;
  uint64_t bytes; /* 0: none; the process is not allowed to lock memory */
};

/* Keeps the BYTES bytes at START resident, each page from its first use. The total of such memory is limited to a
 * quarter of RLIMIT_MEMLOCK. Async-signal-safe: no. Threads: any. */
struct clinux_resident clinux_keep_resident(const void *start, size_t bytes);

/* Removes KEPT from the total; must be called when the memory is freed. The pages stay locked: another thread might
 * reuse a stack, and unlocking would then undo the service's mlockall(2). Async-signal-safe: yes. Threads: any. */
void clinux_let_go_resident(struct clinux_resident kept);

/* Resets the total in a child of fork(2), which inherits no memory locks. Must be called before memory is kept.
 * Async-signal-safe: yes. Threads: any. */
void clinux_residency_start_over(void);

/* Loads the code from FIRST to LAST, as far as it is in one module, and keeps it resident if locking is allowed.
 * Returns whether the code is locked. Async-signal-safe: no. Threads: any. */
bool clinux_keep_code_resident(uint64_t first, uint64_t last);

/* Keeps the next 32 KiB of the calling thread's stack resident, AT_ONCE or each page from its first use, until
 * clinux_let_go_resident. Async-signal-safe: no. Threads: any. */
struct clinux_resident clinux_keep_stack_resident(bool at_once);

#endif
