/* Reading memory that may be gone, without waiting for what the service may be waiting for.
 *
 * process_vm_readv(2) and /proc/self/mem take the lock of the process's address space and cannot be interrupted in
 * waiting for it: while a thread sits in a page fault that a file system does not answer, and another one in
 * mprotect(2), a reader waits for both. A write(2) from that memory into a file in memory takes no such lock where the
 * pages are there, and returns EFAULT where nothing is mapped.
 */
#ifndef CLINUX_MEMORY_H
#define CLINUX_MEMORY_H

#include "clinux_base.h"

/* How memory is read: the first of these that works in this process. A page that is not mapped is reported by each of
 * them, where a load would raise SIGSEGV. */
enum clinux_memory_way {
  CLINUX_MEMORY_BY_WINDOW = 0,  /* written into a file in memory (memfd_create(2)) that is mapped here */
  CLINUX_MEMORY_BY_CALL = 1,    /* process_vm_readv(2): there are no such files */
  CLINUX_MEMORY_BY_FILE = 2,    /* /proc/thread-self/mem: a sandbox refuses the call */
  CLINUX_MEMORY_BY_PIPE = 3,    /* through a pipe: a sandbox refuses the call, and the file cannot be opened */
  CLINUX_MEMORY_UNREADABLE = 4, /* not at all: no stack can be unwound */
};

/* Finds out which way works, and returns it. To be called before anything is read, and again when the restrictions may
 * have changed; until then it is CLINUX_MEMORY_BY_CALL. Async-signal-safe: no. Threads: any, one at a time, while
 * nothing is read. */
enum clinux_memory_way clinux_memory_start(void);

/* Opens the files through which the calling thread's context reads memory, after clinux_memory_start.
 * Async-signal-safe: no.
 * Threads: one that has just entered a context, and has taken its own descriptor table before if it has one. */
void clinux_memory_start_context(void);

/* What clinux_memory_start found; CLINUX_MEMORY_BY_CALL when somebody has closed the file of a window since.
 * Async-signal-safe: yes. Threads: any. */
enum clinux_memory_way clinux_memory_way(void);

/* What is to be done about memory that may not come. */
enum clinux_memory_advice {
  CLINUX_MEMORY_READ = 0,   /* read it */
  CLINUX_MEMORY_COPIED = 1, /* there is a copy */
  CLINUX_MEMORY_ABSENT = 2, /* do not touch it */
};

/* Tells what is to be done about reading LENGTH bytes at ADDRESS. On CLINUX_MEMORY_COPIED, *COPY is where they are. */
typedef enum clinux_memory_advice clinux_memory_adviser(uint64_t address, size_t length, const uint8_t **copy);

/* Has ADVISER asked before memory is read, where waiting is not allowed: clinux_remote.h, which reads memory itself.
 * Async-signal-safe: yes. Threads: any. */
void clinux_memory_set_adviser(clinux_memory_adviser *adviser);

/* Copies LENGTH bytes at ADDRESS of this process to DESTINATION. Pages of files that may not come (clinux_remote.h)
 * are not waited for: they count as unreadable. Returns false, with DESTINATION undefined, when not all of them can be
 * read. Threads of the same context take turns. Async-signal-safe: yes. Threads: any; a handler of a signal only in
 * CLINUX_HANDLERS_CONTEXT. */
CLINUX_NO_LOCKS bool clinux_memory_read(uint64_t address, void *destination, size_t length);

/* Copies what can be read of the LENGTH bytes at ADDRESS, up to the first page that cannot. Returns how many bytes that
 * were; 0 with CLINUX_MEMORY_BY_PIPE, because handlers of several threads may be here at the same time.
 * Async-signal-safe: yes. Threads: as clinux_memory_read. */
CLINUX_NO_LOCKS size_t clinux_memory_read_some(uint64_t address, void *destination, size_t length);

/* The same, waiting for whatever has to come. Async-signal-safe: yes. Threads: any whose waiting harms nobody. */
size_t clinux_memory_read_anyway(uint64_t address, void *destination, size_t length);

#endif
