/* The memory that unwinding reads: the copied stack, and pages of the process. */
#ifndef PROCESS_MEMORY_H
#define PROCESS_MEMORY_H

#include "walk.h"

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_memory_bytes(void);

/* Reads LENGTH bytes of the process at ADDRESS into DESTINATION. Returns false if they cannot be read.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_read(struct unwinder *unwinder, uint64_t address, void *destination, size_t length);

/* Reads a word from the copy if it lies on WALK's stack, otherwise from the process. Returns false if it cannot be read
 * and records the reason in WALK. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_word(struct walk *walk, uint64_t address, uint64_t *value);

/* Finds the module that contains ADDRESS. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_find_module(struct unwinder *unwinder, uint64_t address, struct unwind_module *module);

/* Whether the page of ADDRESS, which was just read, stays cached between stacks. Async-signal-safe: yes. Threads: as
 * cunwind_unwind. */
bool cunwind_is_kept(struct unwinder *unwinder, uint64_t address);

/* Drops cached pages: writable pages, which must be read again for every stack, or ALL pages if modules might have been
 * replaced. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_memory_forget(struct unwinder *unwinder, bool all);

#endif
