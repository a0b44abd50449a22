/* Reads memory that might be unmapped, without locks that the service might hold or wait for.
 *
 * process_vm_readv(2) and /proc/self/mem wait uninterruptibly for the lock of the address space. A write(2) from the
 * memory to a memfd needs no lock if the pages are present. */
#ifndef CLINUX_MEMORY_H
#define CLINUX_MEMORY_H

#include "clinux_base.h"

/* Methods of reading memory, in order of preference. Each reports unmapped pages. */
enum clinux_memory_way {
  CLINUX_MEMORY_BY_WINDOW = 0, /* written into a mapped file in memory (memfd_create(2)) */
  CLINUX_MEMORY_BY_CALL = 1,
  CLINUX_MEMORY_BY_FILE = 2,
  CLINUX_MEMORY_BY_PIPE = 3,    /* if a sandbox refuses process_vm_readv(2) and /proc/self/mem */
  CLINUX_MEMORY_UNREADABLE = 4, /* no stack can be unwound */
};

/* Selects the first method that works, and returns it. Async-signal-safe: no. Threads: any, one at a time, while no
 * thread reads. */
enum clinux_memory_way clinux_memory_start(void);

/* Opens the files through which the calling thread's context reads memory. Requires clinux_memory_start.
 * Async-signal-safe: no. Threads: one that has just entered a context and, if needed, taken its own descriptor
 * table. */
void clinux_memory_start_context(void);

/* Returns the method in use; CLINUX_MEMORY_BY_CALL if other code has closed a window's file. Async-signal-safe: yes.
 * Threads: any. */
enum clinux_memory_way clinux_memory_way(void);

/* Copies LENGTH bytes at ADDRESS to DESTINATION. Waits for pages that the kernel must read from a file. Returns false,
 * with DESTINATION undefined, if any byte cannot be read. Async-signal-safe: yes. Threads: any; signal handlers only in
 * CLINUX_HANDLERS_CONTEXT. */
CLINUX_NO_LOCKS bool clinux_memory_read(uint64_t address, void *destination, size_t length);

/* Copies up to LENGTH bytes at ADDRESS, ending at the first unreadable page. Returns the number of bytes copied; 0 with
 * CLINUX_MEMORY_BY_PIPE. Async-signal-safe: yes. Threads: as clinux_memory_read. */
CLINUX_NO_LOCKS size_t clinux_memory_read_some(uint64_t address, void *destination, size_t length);

#endif
