/* One line for each pending report, printed if there is no time for the report. A report is pending from its stall's
 * declaration until it has been printed or all handlers have returned. */
#ifndef CPROCESS_PENDING_H
#define CPROCESS_PENDING_H

#include "clinux_base.h"

#include <stddef.h>

/* Maximum length of a line without its age and count. */
enum { CPROCESS_LINE_BYTES = 512 };

/* Maximum number of lines. Further reports are only counted. A thread's stall can replace the line of a stall that has
 * no thread. */
enum { CPROCESS_LINES_MAX = 64 };

struct cprocess_pending_stall {
  uint64_t item;
  uint64_t age_ns; /* last known */
  uint32_t slot;
  uint32_t more;
  bool is_of_thread;
};

/* Removes lines inherited from a parent. AGE, which must be async-signal-safe, returns the age in ns of the work
 * item in a slot; 0: over. Async-signal-safe: no. Threads: any, one at a time, before the other functions. */
void cprocess_pending_start(uint64_t (*age)(uint32_t slot, uint64_t item));

/* Stores the line of report NUMBER about STALL: HEAD, the age if there is a work item, and TAIL. Replaces the report's
 * former line. IS_NEW: the report has not been stored before. Async-signal-safe: yes. Threads: any; one at a time for
 * each NUMBER. */
void cprocess_pending_put(uint64_t number, bool is_new, const struct cprocess_pending_stall *stall, const char *head,
                          size_t head_bytes, const char *tail, size_t tail_bytes);

/* Removes report NUMBER's line. If the report has no line, reduces the count of reports without lines.
 * Async-signal-safe: yes. Threads: any. */
void cprocess_pending_remove(uint64_t number);

/* Records that the calling thread delivers report NUMBER to a handler. Async-signal-safe: yes. Threads: any. */
void cprocess_pending_deliver(uint64_t number);

/* Must be called if the handler of the calling thread's report (cprocess_pending_deliver) will not return. Removes this
 * report; its line stays if the line stands for several reports. Async-signal-safe: yes. Threads: one that exits the
 * process or stops the watchdog. */
void cprocess_pending_remove_delivered(void);

/* Async-signal-safe: yes. Threads: any. */
bool cprocess_pending_any(void);

/* Return a word that changes when a line is removed; wait until the word differs from SEEN, or until DEADLINE_NS;
 * change the word. Async-signal-safe: yes. Threads: any. */
uint32_t cprocess_pending_word(void);
void cprocess_pending_wait(uint32_t seen, uint64_t deadline_ns);
void cprocess_pending_wake(void);

/* Prints the lines on standard error, until DEADLINE_NS, and removes them. Async-signal-safe: yes. Threads: any. */
void cprocess_pending_print(uint64_t deadline_ns);

#endif
