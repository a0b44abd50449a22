/* Steps by simple rules (frame_rule.h), which are remembered: a step is then a few reads of the copied stack. Where
 * there is no simple rule libunwind takes all steps over, from the frame on that the cursor was set to; it comes to the
 * same frame by the same rows. Internal to CUnwind. */
#ifndef RULE_CURSOR_H
#define RULE_CURSOR_H

#include "cursor.h"

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_rules_bytes(void);

/* The steps by rules of UNWINDER, which has a library; the library's own where rules are not read for its architecture.
 * Async-signal-safe: yes. Threads: any. */
const struct cfi_steps *cunwind_rule_steps(const struct unwinder *unwinder);

/* Hands CURSOR over to libunwind where that has many steps to go through again: copies of it that are tried in turn
 * would each do so. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_settle(struct cursor *cursor);

#endif
