/* One line for each report that is pending, which is printed when there is no time for the report.
 *
 * A report is pending from the moment its stall is declared until it has been printed, or every handler has returned
 * from it. Its line is kept in fixed memory, where the handler of a signal and an exit handler can print it. */
#ifndef CPROCESS_PENDING_H
#define CPROCESS_PENDING_H

#include "clinux_base.h"

#include <stddef.h>

/* The longest line, its line feed included; more bytes are cut off. */
enum { CPROCESS_LINE_BYTES = 512 };

/* The most lines; stalls beyond them are counted. */
enum { CPROCESS_LINES_MAX = 64 };

/* Forgets lines of the process that this one was forked from.
 * Async-signal-safe: no. Threads: any, one at a time, before the others. */
void cprocess_pending_start(void);

/* Keeps the BYTES bytes of TEXT, which end in a line feed, as the line of report NUMBER, in place of a former line if
 * the report is not IS_NEW. Async-signal-safe: yes. Threads: any; one at a time for the same NUMBER. */
void cprocess_pending_put(uint64_t number, bool is_new, const char *text, size_t bytes);

/* Removes the line of report NUMBER, which has been put, if it is still there. Async-signal-safe: yes. Threads: any. */
void cprocess_pending_remove(uint64_t number);

/* The calling thread delivers report NUMBER to a handler: no stop or exit that the handler calls prints its line.
 * Async-signal-safe: yes. Threads: any. */
void cprocess_pending_deliver(uint64_t number);

/* The report that the calling thread delivers to a handler is not pending, because the handler does not return.
 * Async-signal-safe: yes. Threads: one that exits the process or stops the watchdog. */
void cprocess_pending_remove_delivered(void);

/* Whether a report is pending. Async-signal-safe: yes. Threads: any. */
bool cprocess_pending_any(void);

/* The word that changes when a line is removed; waits while it is SEEN, until DEADLINE_NS; and changes it.
 * Async-signal-safe: yes. Threads: any. */
uint32_t cprocess_pending_word(void);
void cprocess_pending_wait(uint32_t seen, uint64_t deadline_ns);
void cprocess_pending_wake(void);

/* Prints the lines on standard error and removes them. Gives up at DEADLINE_NS where standard error takes nothing.
 * Async-signal-safe: yes. Threads: any. */
void cprocess_pending_print(uint64_t deadline_ns);

#endif
