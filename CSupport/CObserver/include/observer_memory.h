/* Reading memory that may be gone. */
#ifndef OBSERVER_MEMORY_H
#define OBSERVER_MEMORY_H

#include "observer_base.h"

/* How memory is read: the first of these that works in this process. A page that is not mapped is reported by each of them,
 * where a load would raise SIGSEGV. */
enum observer_memory_way {
  OBSERVER_MEMORY_BY_CALL = 0,    /* process_vm_readv(2) */
  OBSERVER_MEMORY_BY_FILE = 1,    /* /proc/self/mem: a sandbox refuses the call */
  OBSERVER_MEMORY_BY_PIPE = 2,    /* through a pipe: a sandbox refuses the call, and the file cannot be opened */
  OBSERVER_MEMORY_UNREADABLE = 3, /* not at all: no stack can be unwound */
};

/* Finds out which way works, and returns it. To be called before anything is read, and again when the surroundings may have
 * changed; until then it is OBSERVER_MEMORY_BY_CALL.
 * Async-signal-safe: no. Threads: any, one at a time, while nothing is read. */
enum observer_memory_way observer_memory_start(void);

/* What observer_memory_start found. Async-signal-safe: yes. Threads: any. */
enum observer_memory_way observer_memory_way(void);

/* Copies LENGTH bytes at ADDRESS of this process to DESTINATION. Returns false, with DESTINATION undefined, when not all
 * of them can be read. With OBSERVER_MEMORY_BY_PIPE threads take turns, and a signal handler must not call it.
 * Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS bool observer_memory_read(uint64_t address, void *destination, size_t length);

/* Copies what can be read of the LENGTH bytes at ADDRESS, up to the first page that cannot. Returns how many bytes that
 * were; 0 with OBSERVER_MEMORY_BY_PIPE, because handlers of several threads may be here at the same time.
 * Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS size_t observer_memory_read_some(uint64_t address, void *destination, size_t length);

#endif
