#define _GNU_SOURCE
#include "cprocess_abort.h"

#include "clinux_clock.h"
#include "clinux_mask.h"
#include "clinux_task.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

static _Atomic int32_t aborting;

/* Used by the escalation thread. Children of the process TIMER_OWNER do not inherit the timer. */
static int timer_id;
static pid_t timer_owner;
static _Atomic bool is_armed;

/* BEGIN ASYNC-SIGNAL-SAFE SECTION. Uses no locks, allocation, stdio, loader or language runtime: interrupted code might
 * hold any lock. */

static pid_t process(void) { return (pid_t)syscall(SYS_getpid); }

static void wait_ms(long ms) {
  struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

static void send(int32_t tid, int signal) { syscall(SYS_tgkill, process(), tid, signal); }

static void unblock_abort(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGABRT);
  sigprocmask(SIG_UNBLOCK, &set, NULL); /* affects the calling thread */
}

/* The kernel forces a fault's signal on every process, including process 1. Blocking the signal prevents the call of a
 * handler that other code installs meanwhile. */
static void meet_fault(void) {
  struct sigaction action = {.sa_handler = SIG_DFL};
  sigaction(SIGILL, &action, NULL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGILL);
  sigprocmask(SIG_BLOCK, &set, NULL);
#if defined(__x86_64__)
  __asm__ volatile("ud2");
#elif defined(__aarch64__)
  __asm__ volatile("udf #0");
#endif
  syscall(SYS_exit_group, 128 + SIGABRT);
}

/* SIGPROF sent earlier for another purpose can also run this function, in any thread. */
static void deliver_end(int signal) {
  (void)signal;
  int32_t self = clinux_task_self();
  if (atomic_load_explicit(&aborting, memory_order_acquire) != self)
    return;
  if (process() == 1)
    meet_fault();
  unblock_abort();
  send(self, SIGABRT);
}

void cprocess_abort_expire(void) {
  if (atomic_load_explicit(&is_armed, memory_order_acquire))
    meet_fault();
}

/* END ASYNC-SIGNAL-SAFE SECTION */

static bool blocks(int32_t tid, int signal) {
  uint64_t mask;
  return clinux_mask_of_thread(tid, &mask) && (mask >> (signal - 1) & 1) != 0;
}

void cprocess_abort_thread(int32_t tid) {
  bool is_init = process() == 1;
  struct sigaction action = {.sa_handler = SIG_DFL};
  sigaction(SIGABRT, &action, NULL);
  if (tid != 0 && !is_init && !blocks(tid, SIGABRT)) {
    send(tid, SIGABRT);
    wait_ms(500);
  } else if (tid != 0) {
    atomic_store_explicit(&aborting, tid, memory_order_release);
    struct sigaction deliver = {.sa_handler = deliver_end, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigaction(SIGPROF, &deliver, NULL);
    send(tid, SIGPROF);
    wait_ms(500);
  }
  if (!is_init) {
    unblock_abort();
    send(clinux_task_self(), SIGABRT);
    /* Other code might catch the signal. */
    wait_ms(1000);
    kill(process(), SIGKILL);
  }
  meet_fault();
}

void cprocess_abort_prepare(void) {
  if (timer_owner == process())
    return;
  int saved_errno = errno;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = process() == 1 ? SIGPROF : SIGKILL;
  event.sigev_value.sival_ptr = (void *)(uintptr_t)CPROCESS_ABORT_VALUE;
  /* glibc's timer_create allocates. */
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer_id) == 0)
    timer_owner = process();
  errno = saved_errno;
}

static bool set_timer(uint64_t after_ns) {
  int saved_errno = errno;
  struct itimerspec time = {.it_value = {.tv_sec = (time_t)(after_ns / UINT64_C(1000000000)),
                                         .tv_nsec = (long)(after_ns % UINT64_C(1000000000))}};
  bool is_set = timer_owner == process() && syscall(SYS_timer_settime, timer_id, 0, &time, NULL) == 0;
  errno = saved_errno;
  return is_set;
}

bool cprocess_abort_arm(uint64_t after_ns) {
  cprocess_abort_prepare();
  atomic_store_explicit(&is_armed, true, memory_order_release);
  return set_timer(after_ns);
}

void cprocess_abort_disarm(void) {
  atomic_store_explicit(&is_armed, false, memory_order_release);
  set_timer(0);
}

void cprocess_print(const char *text, size_t bytes, uint64_t deadline_ns) {
  int saved_errno = errno;
  while (bytes > 0) {
    uint64_t now = clinux_clock_ns();
    uint64_t left_ms = now < deadline_ns ? (deadline_ns - now) / 1000000 : 0;
    struct pollfd place = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready = poll(&place, 1, left_ms < 50 ? (int)left_ms : 50);
    if (ready > 0 && (place.revents & POLLOUT) != 0) {
      /* A pipe that is ready for writing accepts PIPE_BUF bytes (pipe(7)). */
      ssize_t written = clinux_write(STDERR_FILENO, text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
      bool may_repeat = (errno == EINTR || errno == EAGAIN) && left_ms > 0;
      if (written < 0 && !may_repeat)
        break;
      text += written > 0 ? written : 0;
      bytes -= written > 0 ? (size_t)written : 0;
    } else if (ready > 0 || left_ms == 0) {
      break;
    }
  }
  errno = saved_errno;
}

void cprocess_abort_say(const char *text, size_t bytes) {
  cprocess_print(text, bytes, clinux_clock_ns() + UINT64_C(500000000));
}
