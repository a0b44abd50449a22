#define _GNU_SOURCE
#include "capture/observer_signal.h"

#include "clinux_clock.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Uses the system call directly: glibc's timer_create allocates. */
static int create(pid_t tid, int signal, uint64_t value, int *timer) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal;
  event.sigev_value.sival_ptr = (void *)(uintptr_t)value;
  event._sigev_un._tid = tid;
  return syscall(SYS_timer_create, clinux_clock_of_thread(tid), &event, timer) == 0 ? 0 : errno;
}

static bool exists(pid_t tid) { return syscall(SYS_tgkill, (pid_t)syscall(SYS_getpid), tid, 0) == 0; }

int observer_signal_when_running(pid_t tid, int signal, uint64_t value, int *timer) {
  int saved_errno = errno;
  int error = create(tid, signal, value, timer);
  if (error == 0) {
    /* A time in the past would send the signal immediately, even to a blocked thread. */
    struct itimerspec when = {{0, 0}, {0, 1}};
    if (syscall(SYS_timer_settime, *timer, 0, &when, NULL) != 0) {
      error = errno;
      syscall(SYS_timer_delete, *timer);
    }
  }
  if (error != 0)
    *timer = OBSERVER_NO_TIMER;
  /* A missing thread and an unsupported clock give the same error. */
  if (error == EINVAL && !exists(tid))
    error = ESRCH;
  errno = saved_errno;
  return error;
}

void observer_signal_cancel(int timer) {
  int saved_errno = errno;
  if (timer != OBSERVER_NO_TIMER)
    syscall(SYS_timer_delete, timer);
  errno = saved_errno;
}

int observer_signal_now(pid_t tid, int signal, uint64_t value, _Atomic uint32_t *mark) {
  int saved_errno = errno;
  pid_t pid = (pid_t)syscall(SYS_getpid);
  siginfo_t information;
  memset(&information, 0, sizeof information);
  information.si_signo = signal;
  information.si_code = SI_QUEUE;
  information.si_pid = pid;
  information.si_uid = getuid();
  information.si_value.sival_ptr = (void *)(uintptr_t)value;
  atomic_store_explicit(mark, OBSERVER_SIGNAL_QUEUED, memory_order_release);
  int result = syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &information) == 0 ? 0 : errno;
  /* A sandbox might refuse rt_tgsigqueueinfo; a signal of tgkill arrives, but without a value. */
  if (result == EPERM || result == ENOSYS || result == EAGAIN) {
    atomic_store_explicit(mark, OBSERVER_SIGNAL_BARE, memory_order_release);
    result = syscall(SYS_tgkill, pid, tid, signal) == 0 ? 0 : errno;
  }
  errno = saved_errno;
  return result;
}

bool observer_signal_timers_work(void) {
  int saved_errno = errno;
  int timer;
  int error = create((pid_t)syscall(SYS_gettid), SIGPROF, 0, &timer);
  if (error == 0)
    syscall(SYS_timer_delete, timer);
  errno = saved_errno;
  return error == 0;
}
