/* Sends a thread a signal that does not disturb it.
 *
 * A signal that arrives at a blocked thread makes nanosleep, poll, epoll_wait and many other calls return early, even
 * with SA_RESTART (signal(7)). A thread can enter such a call between a check of its state and the signal. The signal
 * is therefore sent by a timer on the thread's CPU time. The kernel checks the timer in its tick while the thread is
 * running, and sends the signal when the thread next returns to user mode (task_work, Linux 5.9 and later on x86_64:
 * CONFIG_POSIX_CPU_TIMERS_TASK_WORK), when no system call is in progress. A thread that blocks instead uses no CPU
 * time, and no signal is sent. The cost is a delay of up to a kernel tick. One call is not safe: io_uring_enter does
 * task work while it waits. */
#ifndef OBSERVER_SIGNAL_H
#define OBSERVER_SIGNAL_H

#include "observer_base.h"

/* No timer. */
#define OBSERVER_NO_TIMER (-1)

/* Makes thread TID of this process receive SIGNAL with VALUE (si_code SI_TIMER) when it next computes, once. Returns 0
 * with the timer in *TIMER, which must be passed to observer_signal_cancel, or an errno value: ESRCH if there is no
 * such thread, otherwise the error of timer_create(2), which a sandbox might refuse. Async-signal-safe: yes. Threads: a
 * sampler. */
CLINUX_NO_LOCKS int observer_signal_when_running(pid_t tid, int signal, uint64_t value, int *timer);

/* Cancels the signal if it has not been sent. No effect for OBSERVER_NO_TIMER. Async-signal-safe: yes. Threads: a
 * sampler. */
CLINUX_NO_LOCKS void observer_signal_cancel(int timer);

/* How our signal can arrive. */
enum observer_signal_mark {
  OBSERVER_SIGNAL_TIMED = 0,  /* SI_TIMER, with its value: the kernel reserved memory for it with the timer */
  OBSERVER_SIGNAL_QUEUED = 1, /* SI_QUEUE, with its value; all zero if RLIMIT_SIGPENDING is exhausted */
  OBSERVER_SIGNAL_BARE = 2,   /* as SI_QUEUE, or SI_TKILL without a value: observer_signal_now had to use tgkill(2) */
};

/* Sends SIGNAL with VALUE to thread TID of this process immediately. Sets *MARK to how it can arrive, before it does.
 * Returns 0, ESRCH, or the errno value of rt_tgsigqueueinfo(2). Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int observer_signal_now(pid_t tid, int signal, uint64_t value, _Atomic uint32_t *mark);

/* Whether timers on a thread's CPU time can be created here. Async-signal-safe: yes. Threads: any. */
bool observer_signal_timers_work(void);

#endif
