/* Notes in the run file, for the next launch, about stalls that the recorder does not record: it allocates, so it can
 * hang together with the service. The lines, each with a checksum:
 *
 *   hang SLOT ITEM NOW AGE THRESHOLD KIND TID NAME   the work item is a stall; NOW is wall-clock time; all in ns
 *   stack SLOT ITEM SAMPLES END FRAME...             a stack of it, innermost first; FRAME is ADDRESS:KIND in
 *   hexadecimal
 *   over SLOT ITEM                                   it has ended, or is recorded
 *
 * A later "hang" line replaces an earlier one of the same work item, with its stacks. */
#ifndef OBSERVER_HANG_NOTES_H
#define OBSERVER_HANG_NOTES_H

#include "observer_base.h"

/* Time that the recorder has before a note is written. */
#define OBSERVER_HANG_NOTE_DELAY_NS UINT64_C(250000000)

/* Forgets earlier notes at the start of a run. Async-signal-safe: yes. Threads: the one that writes notes. */
void observer_hang_notes_start(void);

/* Writes the lines that are due (cprocess_crash_write_line). Returns the time of the next call on the observer's clock;
 * UINT64_MAX: after cprocess_crash_wake. Async-signal-safe: yes. Threads: the one that writes notes. */
uint64_t observer_hang_notes_write(void);

#endif
