/* The unwind tables of modules (.eh_frame_hdr, .eh_frame): which functions there are. Internal to CUnwind. */
#ifndef UNWIND_TABLES_H
#define UNWIND_TABLES_H

#include "walk.h"

/* A module's table of functions, sorted by where they begin. */
struct unwind_table {
  struct unwind_module module;
  uint64_t entries; /* where the first one is */
  uint32_t count;
};

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_tables_bytes(void);

/* Finds the table of the module that ADDRESS is in. Returns false when there is no such module, or no table that can be
 * read; *IN_MODULE says whether there is a module.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_find_table(struct unwinder *unwinder, uint64_t address, struct unwind_table *table, bool *in_module);

/* Finds the function that has the code at ADDRESS. Returns false when no table describes it.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_table_function(struct unwinder *unwinder, uint64_t address, struct code_range *range);

/* Finds the code around ADDRESS between two functions that are described. Returns false when there is none before it,
 * or ADDRESS itself is described. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_table_gap(struct unwinder *unwinder, uint64_t address, struct code_range *range);

/* Finds where the table of its module describes the code at ADDRESS: the FDE is at *DESCRIPTION. Returns false when no
 * table does. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_table_entry(struct unwinder *unwinder, uint64_t address, uint64_t *description, struct code_range *range);

/* Whether the table says that code at ADDRESS has no caller: its return address is undefined there.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_table_is_outermost(struct unwinder *unwinder, uint64_t address);

/* Whether the table says that the function that has the code at ADDRESS saves register NUMBER.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_table_saves(struct unwinder *unwinder, uint64_t address, int number);

/* Forgets functions that were looked up: modules may have been replaced.
 * Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_tables_forget(struct unwinder *unwinder);

#endif
