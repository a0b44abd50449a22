/* Process identity across fork(2), and limits of the process. */
#ifndef CLINUX_PROCESS_H
#define CLINUX_PROCESS_H

#include "clinux_base.h"

/* Returns a number, never 0, that distinguishes this process from all its ancestors, after any kind of fork.
 * Async-signal-safe: yes, except for the first call in the first process (maps memory). Threads: any. */
CLINUX_NO_LOCKS uint32_t clinux_process_stamp(void);

/* Whether STAMP is this process's. Async-signal-safe: as clinux_process_stamp. Threads: any. */
static inline CLINUX_NO_LOCKS bool clinux_process_is(uint32_t stamp) { return stamp == clinux_process_stamp(); }

/* Returns the bytes that the process can still allocate within RLIMIT_DATA and RLIMIT_AS; UINT64_MAX if unlimited or
 * unknown. Async-signal-safe: yes. Threads: any. */
uint64_t clinux_process_memory_left(void);

/* Whether the file at PATH, in /proc or /sys, belongs to the kernel. In a container, lxcfs might provide the file, and
 * reading it then waits for another process (fuse(4)). False if statx(2) is refused. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS bool clinux_process_is_kernels(const char *path);

/* Returns the machine's number of CPUs, determined at the first call. If the kernel's file is replaced by lxcfs,
 * returns the number of CPUs on which the first caller could run. Async-signal-safe: no for the first call, then yes.
 * Threads: any, after a first call at start-up. */
uint32_t clinux_process_cpus(void);

#endif
