/* Modules on file systems that depend on another process (FUSE) or another machine (NFS).
 *
 * A page of such a file that is not in memory might never arrive, and the thread that accesses it can be neither
 * interrupted nor killed. The parts of these modules that unwinding needs are therefore copied soon after loading,
 * while the file system answers. Other parts are read only if their pages are in memory. */
#ifndef CLINUX_REMOTE_H
#define CLINUX_REMOTE_H

#include "clinux_base.h"

/* Returns a number computed from the code lines in /proc/thread-self/maps (proc(5)) of modules on another file system
 * than the executable; 0 if there are none. It changes when such modules are loaded or unloaded. Sets *LINES to the
 * total number of lines. Async-signal-safe: yes. Threads: any. */
uint64_t clinux_remote_signature(uint32_t *lines);

/* Registers the file mapped from START to END for careful reading (clinux_memory_set_adviser). Returns false if too
 * many are registered. Async-signal-safe: no. Threads: one. */
bool clinux_remote_add(uint64_t start, uint64_t end);

/* Copies the readable part of the memory from START to END, which belongs to a registered file. Waits for the file
 * system. Returns the number of bytes copied. The copy stays until clinux_remote_remove. Async-signal-safe: no.
 * Threads: the one that calls clinux_remote_add. */
size_t clinux_remote_copy(uint64_t start, uint64_t end);

/* Unregisters the file mapped at START. Its copies are no longer used; their memory is not freed, because a thread
 * might be reading it. Async-signal-safe: no. Threads: the one that calls clinux_remote_add. */
void clinux_remote_remove(uint64_t start);

/* Returns the number of registered files. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint32_t clinux_remote_count(void);

#endif
