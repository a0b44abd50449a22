#define _GNU_SOURCE
#include "stress_harm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Threads that nobody sends a signal to which they do not block: whatever returns early there was cut short by an
 * observer. Calls that SIGSTOP and SIGCONT cut short by themselves (epoll_wait, semtimedop, sigtimedwait: signal(7))
 * are not made. While a profiler is on, which sends SIGPROF to any thread, returns count for nothing. */

extern _Atomic uint64_t stress_profiling;

static _Atomic uint64_t calls;
static void (*tell_what)(const char *what);

struct quiet_thread {
  int kind;
  struct stress_shared *shared;
  uint64_t random;
};

static const char *const names[] = {"nanosleep", "clock_nanosleep", "poll", "select", "futex", "read"};
enum { KINDS = sizeof names / sizeof names[0] };

/* The ends of a pipe for the thread that reads, and of one back. */
static int to_reader[2], from_reader[2];

static uint64_t next_random(struct quiet_thread *thread) {
  thread->random = thread->random * 6364136223846793005u + 1442695040888963407u;
  return thread->random >> 33;
}

/* Makes one call that takes ASKED nanoseconds. Returns whether it timed out, as it should. */
static bool wait_for(int kind, uint64_t asked) {
  struct timespec time = {(time_t)(asked / 1000000000), (long)(asked % 1000000000)};
  switch (kind) {
  case 0:
    return nanosleep(&time, NULL) == 0;
  case 1: {
    uint64_t until = stress_now_ns() + asked;
    time = (struct timespec){(time_t)(until / 1000000000), (long)(until % 1000000000)};
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0;
  }
  case 2:
    return poll(NULL, 0, (int)(asked / 1000000)) == 0;
  case 3: {
    struct timeval wait = {0, (suseconds_t)(asked / 1000)};
    return select(0, NULL, NULL, NULL, &wait) == 0;
  }
  default: {
    int word = 0;
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0) == -1 && errno == ETIMEDOUT;
  }
  }
}

static void check_time(struct quiet_thread *thread) {
  uint64_t asked = 1000000 * (1 + next_random(thread) % 40);
  uint64_t profiling = stress_profiling;
  uint64_t stopped = stress_stopped_ns(thread->shared);
  uint64_t began = stress_now_ns();
  bool timed_out = wait_for(thread->kind, asked);
  int error = errno;
  uint64_t took = stress_now_ns() - began;
  if (profiling % 2 != 0 || profiling != stress_profiling || (timed_out && took >= asked))
    return;
  /* What SIGSTOP has interrupted the kernel begins anew, unless a signal comes before that. */
  if (!timed_out && error == EINTR && stress_stopped_ns(thread->shared) != stopped) {
    thread->shared->early++;
    return;
  }
  char text[160];
  snprintf(text, sizeof text, "%s of %llu ns %s after %llu ns%s%s", names[thread->kind], (unsigned long long)asked,
           timed_out ? "returned" : "failed", (unsigned long long)took, timed_out ? "" : ": ",
           timed_out ? "" : strerror(error));
  tell_what(text);
}

/* Reads numbers, which must come in their order, and sends them back. */
static void check_reading(uint64_t *expected) {
  uint64_t number = 0;
  uint64_t profiling = stress_profiling;
  ssize_t count = read(to_reader[0], &number, sizeof number);
  if (count < 0 && errno == EINTR && (profiling % 2 != 0 || profiling != stress_profiling))
    return;
  if (count != sizeof number || number != *expected) {
    char text[160];
    snprintf(text, sizeof text, "read returned %zd with %llu, not %llu: %s", count, (unsigned long long)number,
             (unsigned long long)*expected, count < 0 ? strerror(errno) : "");
    tell_what(text);
  }
  ++*expected;
  if (write(from_reader[1], &number, sizeof number) != sizeof number)
    tell_what("write to a pipe failed");
}

static void *call_over_and_over(void *argument) {
  struct quiet_thread *thread = argument;
  uint64_t expected = 0;
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGPROF);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  thread->shared->quiet[thread->kind] = (int32_t)syscall(SYS_gettid);
  for (;;) {
    if (thread->kind == KINDS - 1)
      check_reading(&expected);
    else
      check_time(thread);
    calls++;
  }
  return NULL;
}

/* Gives the reader something to read now and then. */
static void *feed(void *argument) {
  struct quiet_thread *thread = argument;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  for (uint64_t number = 0;; number++) {
    uint64_t answer = 0;
    usleep((useconds_t)(next_random(thread) % 20000));
    if (write(to_reader[1], &number, sizeof number) != sizeof number ||
        read(from_reader[0], &answer, sizeof answer) != sizeof answer || answer != number)
      tell_what("a pipe gave back another number");
  }
  return NULL;
}

static bool start(void *(*body)(void *), struct quiet_thread *thread) {
  pthread_t id;
  return pthread_create(&id, NULL, body, thread) == 0 && pthread_detach(id) == 0;
}

void stress_start_quiet_threads(struct stress_shared *shared, void (*tell)(const char *what)) {
  static struct quiet_thread threads[KINDS + 1];
  tell_what = tell;
  if (pipe2(to_reader, O_CLOEXEC) != 0 || pipe2(from_reader, O_CLOEXEC) != 0) {
    tell("pipes could not be made");
    return;
  }
  for (int kind = 0; kind <= KINDS; kind++) {
    threads[kind] = (struct quiet_thread){kind, shared, (uint64_t)kind * 7919 + 1};
    if (!start(kind < KINDS ? call_over_and_over : feed, &threads[kind]))
      tell("a thread could not be started");
  }
}

uint64_t stress_quiet_calls(void) { return calls; }
