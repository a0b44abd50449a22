/* Reads memory that might be unmapped, without locks that the service might hold or wait for.
 *
 * process_vm_readv(2) and /proc/self/mem take the lock of the address space and wait for it uninterruptibly. A write(2)
 * from that memory into a file in memory takes no such lock if the pages are present, and returns EFAULT if they are
 * not mapped. */
#ifndef CLINUX_MEMORY_H
#define CLINUX_MEMORY_H

#include "clinux_base.h"

/* The method of reading memory: the first of these that works in this process. Each of them reports unmapped pages,
 * where a load would raise SIGSEGV. */
enum clinux_memory_way {
  CLINUX_MEMORY_BY_WINDOW = 0, /* written into a file in memory (memfd_create(2)) that is mapped here */
  CLINUX_MEMORY_BY_CALL = 1,
  CLINUX_MEMORY_BY_FILE = 2,
  CLINUX_MEMORY_BY_PIPE = 3,    /* through a pipe, if a sandbox refuses the call and the file cannot be opened */
  CLINUX_MEMORY_UNREADABLE = 4, /* no method works: no stack can be unwound */
};

/* Determines the method and returns it. Async-signal-safe: no. Threads: any, one at a time, while no thread reads. */
enum clinux_memory_way clinux_memory_start(void);

/* Opens the files through which the calling thread's context reads memory. Requires clinux_memory_start.
 * Async-signal-safe: no. Threads: one that has just entered a context, after taking its own descriptor table if it
 * takes one. */
void clinux_memory_start_context(void);

/* Returns the method that clinux_memory_start determined, or CLINUX_MEMORY_BY_CALL if a window's file has been closed
 * by other code since. Async-signal-safe: yes. Threads: any. */
enum clinux_memory_way clinux_memory_way(void);

/* Copies LENGTH bytes at ADDRESS of this process to DESTINATION. Waits for pages that must be read from a file. Returns
 * false, with DESTINATION undefined, if any byte cannot be read. Threads of one context take turns. Async-signal-safe:
 * yes. Threads: any; signal handlers only in CLINUX_HANDLERS_CONTEXT. */
CLINUX_NO_LOCKS bool clinux_memory_read(uint64_t address, void *destination, size_t length);

/* Copies the readable part of the LENGTH bytes at ADDRESS, up to the first unreadable page. Returns the number of bytes
 * copied; 0 with CLINUX_MEMORY_BY_PIPE, because handlers of several threads can be here at once. Async-signal-safe:
 * yes. Threads: as clinux_memory_read. */
CLINUX_NO_LOCKS size_t clinux_memory_read_some(uint64_t address, void *destination, size_t length);

#endif
