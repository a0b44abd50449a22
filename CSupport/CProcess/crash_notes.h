/* Lines for the file of the run, written by a thread of their own.
 *
 * Who dies must not wait for a disk: a write to one that does not answer can neither be interrupted nor killed, and the
 * signal would never come to its end. So the line is handed over without a lock, and waited for with a bound. The
 * thread has nothing else to do, allocates nothing and takes no lock: that of the allocator may be held by who dies. */
#ifndef CRASH_NOTES_H
#define CRASH_NOTES_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

#include <stddef.h>

/* The longest line, its end included. */
enum { CRASH_NOTE_LENGTH_MAX = 64 };

/* Has lines written to FILE from now on. Returns the number of the run, for crash_notes_write.
 * Async-signal-safe: no. Threads: any, one at a time. */
uint32_t crash_notes_start(struct clinux_descriptor file);

/* Has no line written any more, and ends the thread.
 * Async-signal-safe: yes. Threads: any, one at a time. */
void crash_notes_stop(void);

/* Has lines written to FILE, if they are to be written at all.
 * Async-signal-safe: yes. Threads: the disk thread. */
void crash_notes_move(struct clinux_descriptor file);

/* Has the LENGTH characters of LINE written. Waits for nobody.
 * Async-signal-safe: yes. Threads: any, one at a time. */
void crash_notes_put(const char *line, size_t length);

/* Waits until what has been put is written, until DEADLINE_NS at most.
 * Async-signal-safe: yes. Threads: any. */
void crash_notes_wait(uint64_t deadline_ns);

/* Writes the lines of the run RUN until it ends, and calls MORE at first, whenever it is woken, and at the time that
 * MORE returned. Async-signal-safe: yes. Threads: one for each run. */
void crash_notes_write(uint32_t run, uint64_t (*more)(void));

/* Writes the LENGTH characters of LINE at once. Async-signal-safe: yes. Threads: the one that writes, in its MORE. */
void crash_notes_write_now(const char *line, size_t length);

/* Wakes the thread. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void crash_notes_wake(void);

#endif
