/* Looks up functions in the unwind tables of modules (.eh_frame_hdr, .eh_frame). */
#ifndef UNWIND_TABLES_H
#define UNWIND_TABLES_H

#include "walk.h"

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_tables_bytes(void);

/* Finds the function around ADDRESS. Returns false if no table describes it. Async-signal-safe: as cunwind_unwind.
 * Threads: as cunwind_unwind. */
bool cunwind_table_function(struct unwinder *unwinder, uint64_t address, struct code_range *range);

/* Whether a table describes the code at ADDRESS. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_is_described(struct unwinder *unwinder, uint64_t address);

/* Finds the gap around ADDRESS between two described functions. Returns false if no described function precedes it or
 * ADDRESS itself is described. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_table_gap(struct unwinder *unwinder, uint64_t address, struct code_range *range);

/* Finds the table entry of the code at ADDRESS; sets *DESCRIPTION to the address of its FDE. Returns false if no table
 * describes the code. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_table_entry(struct unwinder *unwinder, uint64_t address, uint64_t *description, struct code_range *range);

/* Clears cached functions. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_tables_forget(struct unwinder *unwinder);

#endif
