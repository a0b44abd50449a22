/* The end of the process by exit(3).
 *
 * At an exit, a thread of the watchdog's stops the watchdog, and the exit handler waits for it: for cprocess_ending_ns
 * at most, whatever lock the exiting thread or any other one holds. The handler prints the lines of reports that are
 * still pending (cprocess_pending.h). */
#ifndef CPROCESS_ENDING_H
#define CPROCESS_ENDING_H

#include "clinux_base.h"
#include "clinux_wait.h"

#include <pthread.h>

/* How long an exit waits for pending reports to be printed and saved; for the whole watchdog to be stopped; and for
 * everything, including the lines that are left. */
static const uint64_t cprocess_ending_reports_ns = UINT64_C(1500000000);
static const uint64_t cprocess_ending_stop_ns = UINT64_C(1800000000);
static const uint64_t cprocess_ending_ns = UINT64_C(2000000000);

/* Has the exit of this process wake cprocess_ending_wakeup and wait for cprocess_ending_done.
 * Async-signal-safe: no. Threads: any, one at a time. */
void cprocess_ending_arm(void);

/* Wakes the thread that starts the stop at an exit; it may have other uses. Never freed.
 * Async-signal-safe: yes. Threads: any. */
struct clinux_wakeup *cprocess_ending_wakeup(void);

/* Whether THREAD is the one that called exit: no thread waits for it. Async-signal-safe: yes. Threads: any. */
bool cprocess_ending_is_exiting_thread(pthread_t thread);

/* When the exit began, CLOCK_MONOTONIC; 0 before an exit. Async-signal-safe: yes. Threads: any. */
uint64_t cprocess_ending_began_ns(void);

/* The watchdog has been stopped: an exit waits only for reports that are still pending.
 * Async-signal-safe: yes. Threads: any. */
void cprocess_ending_done(void);

#endif
