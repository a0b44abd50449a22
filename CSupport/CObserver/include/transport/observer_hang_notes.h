/* Notes in the run file about stalls that the recorder has not recorded. The recorder allocates, so it can hang
 * together with the service. The lines, each with a checksum:
 *
 *   hang SLOT ITEM NOW AGE THRESHOLD KIND TID NAME   a stall; NOW is wall-clock time; all in ns
 *   stack SLOT ITEM SAMPLES END FRAME...             its stack, innermost first; FRAME is ADDRESS:KIND in hex
 *   over SLOT ITEM                                   the stall has ended, or is recorded
 *
 * A "hang" line replaces all earlier lines of its work item. */
#ifndef OBSERVER_HANG_NOTES_H
#define OBSERVER_HANG_NOTES_H

#include "base/observer_base.h"

/* Time that the recorder has before a note is written. */
#define OBSERVER_HANG_NOTE_DELAY_NS UINT64_C(250000000)

/* Forgets earlier notes. Async-signal-safe: yes. Threads: the one that writes notes. */
void observer_hang_notes_start(void);

/* Writes the lines that are due (cprocess_crash_write_line). Returns the time of the next call; UINT64_MAX: after
 * cprocess_crash_wake. Async-signal-safe: yes. Threads: the one that writes notes. */
uint64_t observer_hang_notes_write(void);

#endif
