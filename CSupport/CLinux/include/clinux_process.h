/* Process identity across fork(2): a child inherits its parent's memory and must recognize that it is not the
 * parent. */
#ifndef CLINUX_PROCESS_H
#define CLINUX_PROCESS_H

#include "clinux_base.h"

/* Returns a number, never 0, that distinguishes this process from all processes it was forked from, by any kind of
 * fork. Async-signal-safe: yes, except for the first call in the first process (maps memory). Threads: any. */
CLINUX_NO_LOCKS uint32_t clinux_process_stamp(void);

/* Whether STAMP is this process's. Async-signal-safe: as clinux_process_stamp. Threads: any. */
static inline CLINUX_NO_LOCKS bool clinux_process_is(uint32_t stamp) { return stamp == clinux_process_stamp(); }

/* Returns the memory that the process can still allocate within its limits (RLIMIT_DATA, RLIMIT_AS), in bytes;
 * UINT64_MAX if it has no limit or /proc is not available. Async-signal-safe: yes. Threads: any. */
uint64_t clinux_process_memory_left(void);

/* Whether the machine-wide file at PATH, in /proc or /sys, belongs to the kernel. In a container it might belong to
 * lxcfs, and reading it then waits for a process that might not respond (fuse(4)). False if the kernel refuses
 * statx(2). Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_process_is_kernels(const char *path);

/* Returns the number of CPUs of the machine at the first call. If only a container's server could answer, returns the
 * number of CPUs that the first caller was allowed to run on. Async-signal-safe: no for the first call, then yes.
 * Threads: any; first one that starts the library. */
uint32_t clinux_process_cpus(void);

#endif
