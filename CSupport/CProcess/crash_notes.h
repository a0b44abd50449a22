/* Writes lines to the run file on a dedicated thread, because a dying thread could not bound its own wait for a disk.
 * Lines are queued without a lock, and waits for the writer thread are bounded. */
#ifndef CRASH_NOTES_H
#define CRASH_NOTES_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

#include <stddef.h>

enum { CRASH_NOTE_LENGTH_MAX = 64 };

/* Starts a run, which writes its lines to FILE and lasts until crash_notes_stop or the next start. Returns the run's
 * number for crash_notes_write. Async-signal-safe: no. Threads: any, one at a time. */
uint32_t crash_notes_start(struct clinux_descriptor file);

/* Stops writing lines and ends the writer thread. Async-signal-safe: yes. Threads: any, one at a time. */
void crash_notes_stop(void);

/* Makes the run write its next lines to FILE. No effect after crash_notes_stop. Async-signal-safe: yes. Threads: the
 * disk thread. */
void crash_notes_move(struct clinux_descriptor file);

/* Queues the LENGTH characters of LINE, unless the queue is full. Never blocks. Async-signal-safe: yes. Threads:
 * any, one at a time. */
void crash_notes_put(const char *line, size_t length);

/* Waits until all queued lines are written, or until DEADLINE_NS. Async-signal-safe: yes. Threads: any. */
void crash_notes_wait(uint64_t deadline_ns);

/* Writes the lines of run RUN until the run ends. Calls MORE after each crash_notes_wake, and at the time that the
 * previous call of MORE returned. Async-signal-safe: yes. Threads: one for each run. */
void crash_notes_write(uint32_t run, uint64_t (*more)(void));

/* Writes the LENGTH characters of LINE immediately. Async-signal-safe: yes. Threads: the writer thread, in MORE. */
void crash_notes_write_now(const char *line, size_t length);

/* Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void crash_notes_wake(void);

#endif
