/* Which process this is, as far as fork(2) goes: what a child has of its parent's memory is not its own. */
#ifndef CLINUX_PROCESS_H
#define CLINUX_PROCESS_H

#include "clinux_base.h"

/* A number that is this process's, and not that of any process it was forked from, however it was forked; never 0. In a
 * child of vfork(2), which has its parent's memory, it is the parent's. Async-signal-safe: yes, but for the first call
 * in the first process (maps memory). Threads: any. */
CLINUX_NO_LOCKS uint32_t clinux_process_stamp(void);

/* Whether STAMP is this process's. Async-signal-safe: as above. Threads: any. */
static inline CLINUX_NO_LOCKS bool clinux_process_is(uint32_t stamp) { return stamp == clinux_process_stamp(); }

/* How much memory the process may take before its limits refuse it (RLIMIT_DATA, RLIMIT_AS), in bytes; UINT64_MAX where
 * there is no limit, or /proc does not tell. Async-signal-safe: yes. Threads: any. */
uint64_t clinux_process_memory_left(void);

/* Whether the file of the whole machine at PATH, in /proc or /sys, is the kernel's own. In a container it may be one of
 * lxcfs: reading that waits for a process, which may not answer any more (fuse(4)). What is asked here is known to the
 * kernel. Where that is not told (statx(2) is refused), false. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_process_is_kernels(const char *path);

/* How many processors the machine had when this was called first; where nobody but a container's server tells, how many
 * the thread may run on that called it. Async-signal-safe: no, the first time; then yes. Threads: any; first one that
 * starts the library. */
uint32_t clinux_process_processors(void);

#endif
