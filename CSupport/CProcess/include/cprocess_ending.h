/* The end of the process by exit(3).
 *
 * At an exit, a watchdog thread stops the watchdog, and the exit handler waits for it, at most cprocess_ending_ns and
 * independent of locks that the exiting thread or others hold. */
#ifndef CPROCESS_ENDING_H
#define CPROCESS_ENDING_H

#include "clinux_base.h"
#include "clinux_wait.h"

#include <pthread.h>

/* Maximum wait at an exit for pending reports to be printed and saved; for the whole watchdog to stop; and in total,
 * including the remaining lines. */
static const uint64_t cprocess_ending_reports_ns = UINT64_C(1500000000);
static const uint64_t cprocess_ending_stop_ns = UINT64_C(1800000000);
static const uint64_t cprocess_ending_ns = UINT64_C(2000000000);

/* Makes an exit of this process wake cprocess_ending_wakeup and wait for cprocess_ending_done. AGE returns the age of a
 * stall (cprocess_pending_start). Async-signal-safe: no. Threads: any, one at a time. */
void cprocess_ending_arm(uint64_t (*age)(uint32_t slot, uint64_t item));

/* Wakes the thread that starts the stop at an exit; the wakeup can have other uses. Never freed.
 * Async-signal-safe: yes. Threads: any. */
struct clinux_wakeup *cprocess_ending_wakeup(void);

/* Whether THREAD has called exit. No thread must wait for it. Async-signal-safe: yes. Threads: any. */
bool cprocess_ending_is_exiting_thread(pthread_t thread);

/* Returns the time at which the exit began, CLOCK_MONOTONIC; 0 before an exit. Async-signal-safe: yes. Threads: any. */
uint64_t cprocess_ending_began_ns(void);

/* Reports that the watchdog has been stopped: an exit then waits only for reports that are still pending.
 * Async-signal-safe: yes. Threads: any. */
void cprocess_ending_done(void);

#endif
