/* Sends signals that do not disturb the receiving thread (docs/internals/capture.md).
 *
 * A signal makes many calls of a blocked thread return early, even with SA_RESTART (signal(7)). Therefore a timer on
 * the thread's CPU time sends the signal. The signal arrives when the thread has run for up to one kernel tick and
 * returns to user mode (task_work, Linux 5.9 and later on x86_64: CONFIG_POSIX_CPU_TIMERS_TASK_WORK). io_uring_enter(2)
 * can still return early: it does task work while it waits. */
#ifndef OBSERVER_SIGNAL_H
#define OBSERVER_SIGNAL_H

#include "base/observer_base.h"

#define OBSERVER_NO_TIMER (-1)

/* Sends SIGNAL with VALUE (si_code SI_TIMER) to thread TID, once, when the thread next runs. Returns 0 with *TIMER for
 * observer_signal_cancel, or an errno value: ESRCH for no such thread, or the error of timer_create(2).
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int observer_signal_when_running(pid_t tid, int signal, uint64_t value, int *timer);

/* Cancels an unsent signal; no effect for OBSERVER_NO_TIMER. Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS void observer_signal_cancel(int timer);

/* Forms in which our signal can arrive. */
enum observer_signal_mark {
  OBSERVER_SIGNAL_TIMED = 0,  /* SI_TIMER, with its value */
  OBSERVER_SIGNAL_QUEUED = 1, /* SI_QUEUE, with its value; all zero if RLIMIT_SIGPENDING is exhausted */
  OBSERVER_SIGNAL_BARE = 2,   /* as SI_QUEUE, or SI_TKILL without a value (tgkill(2)) */
};

/* Sends SIGNAL with VALUE to thread TID immediately, after setting *MARK. Returns 0, ESRCH, or the errno value of
 * rt_tgsigqueueinfo(2). Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int observer_signal_now(pid_t tid, int signal, uint64_t value, _Atomic uint32_t *mark);

/* Whether timers on a thread's CPU time can be created. Async-signal-safe: yes. Threads: any. */
bool observer_signal_timers_work(void);

#endif
