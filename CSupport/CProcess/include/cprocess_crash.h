/* Records the signal that ends the process.
 *
 * For the next run of the service, a handler for the signals that report a fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE,
 * SIGTRAP, SIGSYS, SIGABRT) has a line written to a file that is already open, waits for that up to one second, and
 * then lets the signal take its former effect. A handler that was installed before, such as the one of Swift's
 * backtraces, is called with its flags and its mask; if it recovers, the line is revoked.
 *
 * SIGTERM is handled likewise if it has its default action, except in process 1, which has none: its line records an
 * orderly end. A handler of the service's own is left alone, whether it is installed before or later. */
#ifndef CPROCESS_CRASH_H
#define CPROCESS_CRASH_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

#include <signal.h>

enum { CPROCESS_CHECKSUM_LENGTH = 11 };

/* Starts recording in FILE, the run file NUMBER, and installs the handlers if NOTES_SIGNALS. When this process (not its
 * child) is about to end by one of the signals, the line "signal SIGNAL SENDER #CHECKSUM" is written to FILE; the line
 * "survived SIGNAL #CHECKSUM" revokes it. SENDER is the process that sent the signal, 0 for a fault. For SIGTERM the
 * line is "terminated TIME #CHECKSUM", with the time of day in nanoseconds.
 *
 * FILE must be open for appending until cprocess_crash_stop. If the service has closed it, no line is written. A thread
 * must call cprocess_crash_write_notes with the result; until then no line is written. If a handler of other code has
 * replaced one that this process installed before, no new one is installed on top of it.
 *
 * Returns the number of the run. Async-signal-safe: no. Threads: any, one at a time. */
uint32_t cprocess_crash_start(struct clinux_descriptor file, unsigned number, bool notes_signals);

/* Writes the lines of run RUN until cprocess_crash_stop or the next start, on a dedicated thread. MORE writes other
 * lines (observer_hang_notes.h). It is called after each cprocess_crash_wake, and at the time that it returned, in ns
 * of CLOCK_MONOTONIC. Async-signal-safe: yes. Threads: one for each start. */
void cprocess_crash_write_notes(uint32_t run, uint64_t (*more)(void));

/* Writes the first LENGTH characters of LINE with their checksum and the line's end, for which LINE has room.
 * Async-signal-safe: yes. Threads: the one in cprocess_crash_write_notes, in MORE. */
void cprocess_crash_write_line(char *line, size_t length);

/* Causes a call of MORE. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void cprocess_crash_wake(void);

/* Stops recording and removes the handlers that other code has not replaced. Async-signal-safe: no. Threads: any, one
 * at a time. */
void cprocess_crash_stop(void);

/* Writes further lines to FILE, if lines are written at all. Async-signal-safe: yes. Threads: the disk thread. */
void cprocess_crash_move(struct clinux_descriptor file);

/* Has the line "ended TIME #CHECKSUM" written, if lines are written at all, and waits for that until DEADLINE_NS.
 * Async-signal-safe: yes. Threads: one that exits the process. */
void cprocess_crash_note_end(uint64_t deadline_ns);

/* Whether ACTION is this handler's. Async-signal-safe: yes. Threads: any. */
bool cprocess_crash_is_handler(const struct sigaction *action);

#endif
