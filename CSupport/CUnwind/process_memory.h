/* The memory that an unwinding reads: the copied stack, and pages of the process. Internal to CUnwind. */
#ifndef PROCESS_MEMORY_H
#define PROCESS_MEMORY_H

#include "walk.h"

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_memory_bytes(void);

/* Reads LENGTH bytes of the process at ADDRESS to DESTINATION. Returns false when they cannot be read.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_read(struct unwinder *unwinder, uint64_t address, void *destination, size_t length);

/* Reads a word: of the stack that WALK is about from its copy, of the process elsewhere. Returns false when it cannot
 * be read, and notes in WALK why. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_word(struct walk *walk, uint64_t address, uint64_t *value);

/* Finds the module that ADDRESS is in.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_find_module(struct unwinder *unwinder, uint64_t address, struct unwind_module *module);

/* Whether the page of ADDRESS, which was just read, is one that is kept from stack to stack.
 * Async-signal-safe: yes. Threads: as cunwind_unwind. */
bool cunwind_is_kept(struct unwinder *unwinder, uint64_t address);

/* Forgets pages that were read: what a thread may write to must be read anew for every stack, ALL of them when modules
 * may have been replaced. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_memory_forget(struct unwinder *unwinder, bool all);

/* Forgets and wipes pages that were read and are not kept from stack to stack.
 * Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_memory_wipe(struct unwinder *unwinder);

#endif
