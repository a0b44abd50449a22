/* Reading memory that may be gone. */
#ifndef OBSERVER_MEMORY_H
#define OBSERVER_MEMORY_H

#include "observer_base.h"

/* Copies LENGTH bytes at ADDRESS of this process to DESTINATION. Returns false, with DESTINATION undefined, when not all
 * of them can be read: process_vm_readv(2) reports an unmapped page where a load would raise SIGSEGV.
 * Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS bool observer_memory_read(uint64_t address, void *destination, size_t length);

/* Copies what can be read of the LENGTH bytes at ADDRESS, up to the first page that cannot. Returns how many bytes that
 * were.
 * Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS size_t observer_memory_read_some(uint64_t address, void *destination, size_t length);

#endif
