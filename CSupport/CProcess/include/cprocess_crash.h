/* Records the signal that ends the process, for the next run of the service.
 *
 * A handler for the signals of faults queues a line for an open file (the run file), and waits up to one second until
 * the line is written. Then the signal has the effect that it would have without our handler. If the service has its
 * own handler, our handler calls it; if the process then continues, the line is revoked. SIGTERM is included if it has
 * its default action, except in process 1. */
#ifndef CPROCESS_CRASH_H
#define CPROCESS_CRASH_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

#include <signal.h>

enum { CPROCESS_CHECKSUM_LENGTH = 11 };

/* Starts recording in FILE, the run file NUMBER, and installs the handlers if NOTES_SIGNALS is set. When this process
 * (not its child) is about to end by one of the signals, the line "signal SIGNAL SENDER #CHECKSUM" is written;
 * "survived SIGNAL #CHECKSUM" revokes it. SENDER is the sender's process ID, 0 for a fault. For SIGTERM the line is
 * "terminated TIME #CHECKSUM", in nanoseconds since 1970.
 *
 * FILE must be open for appending until cprocess_crash_stop. Returns the number of the run. No line is written until a
 * thread passes this number to cprocess_crash_write_notes. A handler that has replaced ours stays in place.
 * Async-signal-safe: no. Threads: any, one at a time. */
uint32_t cprocess_crash_start(struct clinux_descriptor file, unsigned number, bool notes_signals);

/* Writes the lines of run RUN until cprocess_crash_stop or the next start. MORE writes other lines
 * (observer_hang_notes.h) and returns the time of its next call (CLOCK_MONOTONIC in ns); each cprocess_crash_wake also
 * causes a call. Async-signal-safe: yes. Threads: one for each start. */
void cprocess_crash_write_notes(uint32_t run, uint64_t (*more)(void));

/* Appends a checksum and a newline to the LENGTH characters of LINE, which must have room for them, and writes the
 * line. Async-signal-safe: yes. Threads: the one in cprocess_crash_write_notes, in MORE. */
void cprocess_crash_write_line(char *line, size_t length);

/* Causes a call of MORE (cprocess_crash_write_notes). Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void cprocess_crash_wake(void);

/* Stops recording and removes the handlers that other code has not replaced. Async-signal-safe: no. Threads: any,
 * one at a time. */
void cprocess_crash_stop(void);

/* Makes the run write its next lines to FILE. No effect after cprocess_crash_stop. Async-signal-safe: yes. Threads: the
 * disk thread. */
void cprocess_crash_move(struct clinux_descriptor file);

/* Queues the line "ended TIME #CHECKSUM" and waits until it is written, or until DEADLINE_NS. No effect after
 * cprocess_crash_stop. Async-signal-safe: yes. Threads: one that exits the process. */
void cprocess_crash_note_end(uint64_t deadline_ns);

/* Whether ACTION calls our handler. Async-signal-safe: yes. Threads: any. */
bool cprocess_crash_is_handler(const struct sigaction *action);

#endif
