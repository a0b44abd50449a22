/* The end of the process by exit(3): the exit handler waits until a watchdog thread has stopped the watchdog. The
 * handler takes no locks. */
#ifndef CPROCESS_ENDING_H
#define CPROCESS_ENDING_H

#include "clinux_base.h"
#include "clinux_wait.h"

#include <pthread.h>

/* Maximum waits at an exit: for pending reports, for the end of the watchdog, and in total. */
static const uint64_t cprocess_ending_reports_ns = UINT64_C(1500000000);
static const uint64_t cprocess_ending_stop_ns = UINT64_C(1800000000);
static const uint64_t cprocess_ending_ns = UINT64_C(2000000000);

/* Makes an exit wake cprocess_ending_wakeup and wait for cprocess_ending_done. AGE: see cprocess_pending_start.
 * Async-signal-safe: no. Threads: any, one at a time. */
void cprocess_ending_arm(uint64_t (*age)(uint32_t slot, uint64_t item));

/* Returns the wakeup of the thread that stops the watchdog at an exit; never freed. Async-signal-safe: yes. Threads:
 * any. */
struct clinux_wakeup *cprocess_ending_wakeup(void);

/* Whether THREAD has called exit(3): no thread must then wait for THREAD. Async-signal-safe: yes. Threads: any. */
bool cprocess_ending_is_exiting_thread(pthread_t thread);

/* Returns the time at which the exit began (CLOCK_MONOTONIC); 0: no exit. Async-signal-safe: yes. Threads: any. */
uint64_t cprocess_ending_began_ns(void);

/* Reports that the watchdog has been stopped: an exit then waits only for pending reports. Async-signal-safe: yes.
 * Threads: any. */
void cprocess_ending_done(void);

#endif
