/* Steps by simple rules (frame_rule.h), which are cached, so a step is a few reads of the copied stack. At a frame
 * without a simple rule, libunwind repeats all steps from the cursor's first frame; it reaches the same frame because
 * it uses the same rows. Internal to CUnwind. */
#ifndef RULE_CURSOR_H
#define RULE_CURSOR_H

#include "cursor.h"

/* Size of this part of an unwinder, in bytes. Async-signal-safe: yes. Threads: any. */
size_t cunwind_rules_bytes(void);

/* Returns the steps by rules of UNWINDER, which has a library, or the library's own steps if rules are not supported
 * for its architecture. Async-signal-safe: yes. Threads: any. */
const struct cfi_steps *cunwind_rule_steps(const struct unwinder *unwinder);

/* Hands CURSOR over to libunwind if libunwind would have to repeat many steps: otherwise each copy of the cursor in a
 * series of trials would repeat them. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_settle(struct cursor *cursor);

#endif
