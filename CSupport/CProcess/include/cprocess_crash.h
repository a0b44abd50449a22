/* A note about the signal that ends the process.
 *
 * What a process died of is known to its parent only. For the next run of the service, a handler for the signals that
 * tell of a fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT) has a line written to a file that is open
 * already, waits for that for a second at most, and then lets the signal do what it would have done. The default
 * action, with its core dump, is put back and the signal comes once more: by the instruction that is repeated, or else
 * sent by the thread to itself with the same information. A handler that was there before, such as that of Swift's
 * backtraces, is called with the flags and the mask that it had; if it recovers, the line is taken back. An ignored
 * signal stays ignored.
 */
#ifndef CPROCESS_CRASH_H
#define CPROCESS_CRASH_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

/* Installs the handlers. The line "signal SIGNAL SENDER #CHECKSUM" of the run file NUMBER goes to FILE when this
 * process (not a child of it) is about to end by one of the signals; "survived SIGNAL #CHECKSUM" takes it back. SENDER
 * is the process that sent the signal, 0 for a fault. FILE must be open for appending until cprocess_crash_stop; where
 * the service has closed it, nothing is written. A thread has to call cprocess_crash_write_notes with what is returned:
 * until then nothing is written, either. Where somebody else's handler took the place of one that this process
 * installed before, none is installed on top of it: it may call that one, and else the signal is not noted.
 * Async-signal-safe: no. Threads: any, one at a time. */
uint32_t cprocess_crash_start(struct clinux_descriptor file, unsigned number);

/* Writes the lines of the run RUN until cprocess_crash_stop, or the next start: a thread that does nothing else.
 * Async-signal-safe: yes. Threads: one for each start. */
void cprocess_crash_write_notes(uint32_t run);

/* Writes nothing any more. Handlers that nobody has replaced are removed.
 * Async-signal-safe: no. Threads: any, one at a time. */
void cprocess_crash_stop(void);

/* Has the line written to FILE from now on, if it is to be written at all: at once, so that no note is lost.
 * Async-signal-safe: yes. Threads: the disk thread. */
void cprocess_crash_move(struct clinux_descriptor file);

#endif
