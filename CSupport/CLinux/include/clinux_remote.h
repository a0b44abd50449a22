/* Modules on file systems that somebody else answers for: a process (FUSE) or another machine (NFS).
 *
 * A page of such a file that is not in memory may never come, and who asks for it can then neither be interrupted nor
 * killed. So what unwinding needs of these modules is copied while the file system answers, soon after they have been
 * loaded; of the rest only pages are read that are there.
 */
#ifndef CLINUX_REMOTE_H
#define CLINUX_REMOTE_H

#include "clinux_base.h"

/* A change of this tells that modules have been loaded or unloaded which are on another file system than the
 * executable: a number made from the lines of their code in /proc/thread-self/maps (proc(5)); 0 when there are none.
 * *LINES is how many lines there are in all. Async-signal-safe: yes. Threads: any. */
uint64_t clinux_remote_signature(uint32_t *lines);

/* Says that the file mapped from START to END must be read with care (clinux_memory_set_adviser). Returns false when
 * too many are. Async-signal-safe: no. Threads: one. */
bool clinux_remote_add(uint64_t start, uint64_t end);

/* Copies the memory from START to END, which belongs to one that was added, as far as it can be read. Waits for its
 * file system. Returns how many bytes were copied. The copy stays until clinux_remote_remove. Async-signal-safe: no.
 * Threads: that one. */
size_t clinux_remote_copy(uint64_t start, uint64_t end);

/* Forgets the one that begins at START. Its copies are not used any more; their memory is not given back, because
 * somebody may be reading it. Async-signal-safe: no. Threads: that one. */
void clinux_remote_remove(uint64_t start);

/* How many are known. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint32_t clinux_remote_count(void);

#endif
