#define _GNU_SOURCE
#include "observer_abort.h"

#include "observer_task.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The thread that is to deliver SIGABRT to itself. */
static _Atomic int32_t doomed;

static int timer_id;
static bool timer_armed;

static void wait_ms(long ms) {
  struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

static void send(int32_t tid, int signal) { syscall(SYS_tgkill, getpid(), tid, signal); }

static void unblock_abort(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGABRT);
  sigprocmask(SIG_UNBLOCK, &set, NULL); /* of the calling thread: what pthread_sigmask does, without its errors */
}

/* Runs on the doomed thread, and on others that were sent SIGPROF just before: those go on. */
static void deliver_abort(int signal) {
  (void)signal;
  int32_t self = observer_task_self();
  if (atomic_load_explicit(&doomed, memory_order_acquire) != self)
    return;
  unblock_abort();
  send(self, SIGABRT);
}

/* Whether thread TID blocks SIGNAL: the line "SigBlk:\t0000000000000000" of its status file (proc(5)). */
static bool blocks(int32_t tid, int signal) {
  char path[sizeof "/proc/self/task/" + 10 + sizeof "/status"] = "/proc/self/task/";
  char digits[10];
  size_t count = 0, length = sizeof "/proc/self/task/" - 1;
  for (uint32_t rest = (uint32_t)tid; rest > 0; rest /= 10)
    digits[count++] = (char)('0' + rest % 10);
  while (count > 0)
    path[length++] = digits[--count];
  memcpy(path + length, "/status", sizeof "/status");
  char text[4096];
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = descriptor < 0 ? -1 : read(descriptor, text, sizeof text);
  if (descriptor >= 0)
    close(descriptor);
  static const char label[] = "\nSigBlk:\t";
  for (ssize_t at = 0; at + (ssize_t)sizeof label + 15 <= bytes; at++) {
    if (memcmp(text + at, label, sizeof label - 1) != 0)
      continue;
    uint64_t mask = 0;
    for (const char *digit = text + at + sizeof label - 1; digit < text + at + sizeof label + 15; digit++)
      mask = mask * 16 + (uint64_t)(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10);
    return (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

void observer_abort_thread(int32_t tid) {
  struct sigaction action = {.sa_handler = SIG_DFL};
  sigaction(SIGABRT, &action, NULL);
  if (tid != 0 && !blocks(tid, SIGABRT)) {
    send(tid, SIGABRT);
    wait_ms(500);
  } else if (tid != 0) {
    atomic_store_explicit(&doomed, tid, memory_order_release);
    struct sigaction deliver = {.sa_handler = deliver_abort, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigaction(SIGPROF, &deliver, NULL);
    send(tid, SIGPROF);
    wait_ms(500);
  }
  unblock_abort();
  send(observer_task_self(), SIGABRT);
  /* Somebody has caught it in between. */
  for (;;) {
    wait_ms(1000);
    kill(getpid(), SIGKILL);
  }
}

bool observer_abort_arm(uint64_t after_ns) {
  int saved_errno = errno;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  struct itimerspec time = {.it_value = {.tv_sec = (time_t)(after_ns / UINT64_C(1000000000)),
                                         .tv_nsec = (long)(after_ns % UINT64_C(1000000000))}};
  /* The bare calls: the C library's allocate. */
  if (!timer_armed)
    timer_armed = syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer_id) == 0;
  bool armed = timer_armed && syscall(SYS_timer_settime, timer_id, 0, &time, NULL) == 0;
  errno = saved_errno;
  return armed;
}

void observer_abort_disarm(void) {
  int saved_errno = errno;
  if (timer_armed)
    syscall(SYS_timer_delete, timer_id);
  timer_armed = false;
  errno = saved_errno;
}

void observer_abort_say(const char *text, size_t bytes) {
  int saved_errno = errno;
  int patience_ms = 500;
  while (bytes > 0 && patience_ms > 0) {
    struct pollfd place = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready = poll(&place, 1, 50);
    patience_ms -= 50;
    if (ready <= 0 || (place.revents & POLLOUT) == 0)
      continue;
    /* A pipe that is ready takes this much at once (pipe(7)). */
    ssize_t written = write(STDERR_FILENO, text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
    if (written < 0 && errno != EINTR && errno != EAGAIN)
      break;
    if (written > 0) {
      text += written;
      bytes -= (size_t)written;
    }
  }
  errno = saved_errno;
}
