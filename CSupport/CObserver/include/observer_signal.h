/* Sending a thread a signal that disturbs nothing it does.
 *
 * A signal that finds its thread blocked makes nanosleep, poll, epoll_wait and many other calls return early, even
 * with SA_RESTART (signal(7)), and between looking at a thread and signalling it the thread may enter such a call. So
 * the signal comes from a timer on the thread's processor time: the kernel checks it in its tick while the thread is
 * on a processor and sends the signal when the thread next returns to its own code (task_work, Linux 5.9 and later on
 * x86_64: CONFIG_POSIX_CPU_TIMERS_TASK_WORK), at which point no system call is under way. A thread that blocks instead
 * uses no processor time, and nothing is sent. The price is that the answer takes up to a kernel tick. One call is not
 * safe: io_uring_enter does task work while it waits.
 */
#ifndef OBSERVER_SIGNAL_H
#define OBSERVER_SIGNAL_H

#include "observer_base.h"

/* No timer. */
#define OBSERVER_NO_TIMER (-1)

/* Makes thread TID of this process receive SIGNAL with VALUE (si_code SI_TIMER) as soon as it computes, once. Returns
 * 0 with the timer in *TIMER, to be given to observer_signal_cancel, or an errno value: ESRCH when there is no such
 * thread, otherwise that of timer_create(2), which a sandbox may refuse.
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int observer_signal_when_running(pid_t tid, int signal, uint64_t value, int *timer);

/* Takes the signal back, if it has not been sent. Does nothing for OBSERVER_NO_TIMER.
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS void observer_signal_cancel(int timer);

/* How a signal of ours may arrive. */
enum observer_signal_mark {
  OBSERVER_SIGNAL_TIMED = 0,  /* SI_TIMER, with its value: the kernel has kept room since the timer was made */
  OBSERVER_SIGNAL_QUEUED = 1, /* SI_QUEUE, with its value; all zero where RLIMIT_SIGPENDING is used up */
  OBSERVER_SIGNAL_BARE = 2,   /* the latter, or SI_TKILL without a value: observer_signal_now had to use tgkill(2) */
};

/* Sends thread TID of this process SIGNAL with VALUE now, whatever it does. *MARK says how it may arrive, before it
 * does. Returns 0, ESRCH, or the errno value of rt_tgsigqueueinfo(2).
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int observer_signal_now(pid_t tid, int signal, uint64_t value, _Atomic uint32_t *mark);

/* Whether timers on a thread's processor time can be made here.
 * Async-signal-safe: yes. Threads: any. */
bool observer_signal_timers_work(void);

#endif
