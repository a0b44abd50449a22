/* A note about the signal that ends the process.
 *
 * What a process died of is known to its parent only. For the next run of the service, a handler for the signals that
 * tell of a fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT) has a line written to a file that is open
 * already, waits for that for a second at most, and then lets the signal do what it would have done. The default
 * action, with its core dump, is put back and the signal comes once more: by the instruction that is repeated, or else
 * sent by the thread to itself with the same information. A handler that was there before, such as that of Swift's
 * backtraces, is called with the flags and the mask that it had; if it recovers, the line is taken back. An ignored
 * signal stays ignored.
 *
 * SIGTERM is handled in the same way where it has its default action, except in process 1, which has none: its line
 * records an orderly end. A handler of the service's own is left alone, whether it was there before or comes later.
 */
#ifndef CPROCESS_CRASH_H
#define CPROCESS_CRASH_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

#include <signal.h>

/* How many characters a line's checksum and end take. */
enum { CPROCESS_CHECKSUM_LENGTH = 11 };

/* Installs the handlers if NOTES_SIGNALS. The line "signal SIGNAL SENDER #CHECKSUM" of the run file NUMBER goes to FILE
 * when this process (not a child of it) is about to end by one of the signals; "survived SIGNAL #CHECKSUM" takes it
 * back. SENDER is the process that sent the signal, 0 for a fault. For SIGTERM the line is "terminated TIME #CHECKSUM",
 * with the time of day in nanoseconds. FILE must be open for appending until cprocess_crash_stop; where the service has
 * closed it, nothing is written. A thread has to call cprocess_crash_write_notes with what is returned: until then
 * nothing is written, either. Where somebody else's handler took the place of one that this process installed before,
 * none is installed on top of it: it may call that one, and else the signal is not noted. Async-signal-safe: no.
 * Threads: any, one at a time. */
uint32_t cprocess_crash_start(struct clinux_descriptor file, unsigned number, bool notes_signals);

/* Writes the lines of the run RUN until cprocess_crash_stop, or the next start: a thread that does nothing else. MORE
 * writes other lines (observer_hang_notes.h). It is called whenever cprocess_crash_wake is called, and at the time that
 * it returned, in ns of CLOCK_MONOTONIC. Async-signal-safe: yes. Threads: one for each start. */
void cprocess_crash_write_notes(uint32_t run, uint64_t (*more)(void));

/* Writes the first LENGTH characters of LINE with their checksum and the line's end, for which LINE has room.
 * Async-signal-safe: yes. Threads: the one in cprocess_crash_write_notes, in its MORE. */
void cprocess_crash_write_line(char *line, size_t length);

/* Has MORE called. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void cprocess_crash_wake(void);

/* Writes nothing any more. Handlers that nobody has replaced are removed.
 * Async-signal-safe: no. Threads: any, one at a time. */
void cprocess_crash_stop(void);

/* Has the line written to FILE from now on, if it is to be written at all: at once, so that no note is lost.
 * Async-signal-safe: yes. Threads: the disk thread. */
void cprocess_crash_move(struct clinux_descriptor file);

/* Has the line "ended TIME #CHECKSUM" written, and waits for that until DEADLINE_NS, if lines are written at all.
 * Async-signal-safe: yes. Threads: one that exits the process. */
void cprocess_crash_note_end(uint64_t deadline_ns);

/* Whether ACTION is that of the handler here. Async-signal-safe: yes. Threads: any. */
bool cprocess_crash_is_handler(const struct sigaction *action);

#endif
