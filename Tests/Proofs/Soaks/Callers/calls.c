/* The calls that signal(7) lists as not restarted after a signal, and some restarted calls for comparison. */
#define _GNU_SOURCE
#include "callers.h"
#include "io_uring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/* Each call is in a separate function, which stacks show. */
#define CALL __attribute__((noinline)) static

static struct timespec timespec_of(uint64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
}

/* Returns a random time to wait: 4 microseconds to 8 milliseconds, short waits as often as long ones. */
static uint64_t some_time(struct caller *caller) { return random_between_powers(caller, 12, 22); }

static uint64_t some_milliseconds(struct caller *caller) { return 1 + next_random(caller) % 4; }

/* Returns the outcome of a call that began at BEGAN with a timeout of ASKED nanoseconds. HAS_TIMED_OUT is the call's
 * result; if false, ERROR is the errno value. CLOCK must be the call's clock, because clocks can run at slightly
 * different speeds. */
static enum outcome timed_on(clockid_t clock, struct caller *caller, uint64_t began, uint64_t asked, bool has_timed_out,
                             int error) {
  uint64_t took = now_ns(clock) - began;
  if (!has_timed_out)
    return error == EINTR ? INTERRUPTED : UNEXPECTED;
  if (took >= asked)
    return TIMED_OUT;
  if (asked - took > atomic_load(&caller->most_early_ns))
    atomic_store(&caller->most_early_ns, asked - took);
  return EARLY;
}

static enum outcome timed(struct caller *caller, uint64_t began, uint64_t asked, bool has_timed_out, int error) {
  return timed_on(CLOCK_MONOTONIC, caller, began, asked, has_timed_out, error);
}

/* Returns the outcome of a call without a timeout. If the result is not right, ERROR is the errno value. */
static enum outcome untimed(bool is_right, int error) {
  if (is_right)
    return WOKEN;
  return error == EINTR ? INTERRUPTED : UNEXPECTED;
}

static void close_descriptors(struct caller *caller) {
  close(caller->descriptors[0]);
  close(caller->descriptors[1]);
}

/* Sleeps. */

CALL enum outcome call_nanosleep(struct caller *caller) {
  uint64_t asked = some_time(caller);
  struct timespec time = timespec_of(asked);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  int result = nanosleep(&time, NULL);
  return timed(caller, began, asked, result == 0, errno);
}

CALL enum outcome call_clock_nanosleep(struct caller *caller) {
  uint64_t asked = some_time(caller);
  struct timespec time = timespec_of(asked);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
  return timed(caller, began, asked, error == 0, error);
}

CALL enum outcome call_clock_nanosleep_absolute(struct caller *caller) {
  uint64_t asked = some_time(caller);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  struct timespec until = timespec_of(began + asked);
  int error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
  return timed(caller, began, asked, error == 0, error);
}

/* Waits for descriptors that never become ready, such as the reading end of an idle pipe. */

static bool open_pipe(struct caller *caller) { return pipe2(caller->descriptors, O_CLOEXEC) == 0; }

CALL enum outcome call_poll(struct caller *caller) {
  struct pollfd polled = {caller->descriptors[0], POLLIN, 0};
  uint64_t asked_ms = some_milliseconds(caller);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  int result = poll(&polled, 1, (int)asked_ms);
  return timed(caller, began, asked_ms * MILLISECOND, result == 0, errno);
}

CALL enum outcome call_ppoll(struct caller *caller) {
  struct pollfd polled = {caller->descriptors[0], POLLIN, 0};
  uint64_t asked = some_time(caller);
  struct timespec time = timespec_of(asked);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  int result = ppoll(&polled, 1, &time, NULL);
  return timed(caller, began, asked, result == 0, errno);
}

CALL enum outcome call_select(struct caller *caller) {
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(caller->descriptors[0], &readable);
  uint64_t asked_us = some_time(caller) / 1000;
  struct timeval time = {0, (suseconds_t)asked_us};
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  int result = select(caller->descriptors[0] + 1, &readable, NULL, NULL, &time);
  return timed(caller, began, asked_us * 1000, result == 0, errno);
}

static bool open_epoll(struct caller *caller) {
  caller->descriptors[0] = epoll_create1(EPOLL_CLOEXEC);
  caller->descriptors[1] = eventfd(0, EFD_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN};
  return epoll_ctl(caller->descriptors[0], EPOLL_CTL_ADD, caller->descriptors[1], &event) == 0;
}

CALL enum outcome call_epoll_wait(struct caller *caller) {
  struct epoll_event event;
  uint64_t asked_ms = some_milliseconds(caller);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  int result = epoll_wait(caller->descriptors[0], &event, 1, (int)asked_ms);
  return timed(caller, began, asked_ms * MILLISECOND, result == 0, errno);
}

static bool open_sockets(struct caller *caller) {
  return socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, caller->descriptors) == 0;
}

/* The kernel measures this timeout in ticks, and can return within the last tick: without an observer, 16 of 940000
 * calls returned up to 0.4 ms early on an overloaded machine. So a return less than a tick early counts as in time.
 * Every other call uses a clock with nanoseconds. */
CALL enum outcome call_recv(struct caller *caller) {
  char byte;
  struct timespec tick;
  clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
  uint64_t asked = some_milliseconds(caller) * MILLISECOND + (uint64_t)tick.tv_nsec;
  struct timeval time = {0, (suseconds_t)(asked / 1000)};
  if (setsockopt(caller->descriptors[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) != 0)
    return UNEXPECTED;
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  ssize_t result = recv(caller->descriptors[0], &byte, 1, 0);
  return timed(caller, began, asked - (uint64_t)tick.tv_nsec, result < 0 && errno == EAGAIN, errno);
}

/* Waits for a semaphore without posts, a condition without signals, a rare signal. */

static bool open_semaphore(struct caller *caller) { return sem_init(&caller->semaphore, 0, 0) == 0; }

static void close_semaphore(struct caller *caller) { sem_destroy(&caller->semaphore); }

CALL enum outcome call_sem_timedwait(struct caller *caller) {
  uint64_t asked = some_time(caller);
  uint64_t began = now_ns(CLOCK_REALTIME);
  struct timespec until = timespec_of(began + asked);
  int result = sem_timedwait(&caller->semaphore, &until);
  return timed_on(CLOCK_REALTIME, caller, began, asked, result != 0 && errno == ETIMEDOUT, result == 0 ? 0 : errno);
}

static bool open_condition(struct caller *caller) {
  pthread_condattr_t attributes;
  bool is_open =
      pthread_condattr_init(&attributes) == 0 && pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
      pthread_cond_init(&caller->condition, &attributes) == 0 && pthread_mutex_init(&caller->mutex, NULL) == 0;
  pthread_condattr_destroy(&attributes);
  return is_open;
}

static void close_condition(struct caller *caller) {
  pthread_cond_destroy(&caller->condition);
  pthread_mutex_destroy(&caller->mutex);
}

CALL enum outcome call_pthread_cond_timedwait(struct caller *caller) {
  uint64_t asked = some_time(caller);
  pthread_mutex_lock(&caller->mutex);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  struct timespec until = timespec_of(began + asked);
  int error = pthread_cond_timedwait(&caller->condition, &caller->mutex, &until);
  /* The result 0 is a spurious wakeup, which counts as early before the timeout. */
  enum outcome outcome = timed(caller, began, asked, error == ETIMEDOUT || error == 0, error);
  pthread_mutex_unlock(&caller->mutex);
  return outcome;
}

static bool open_semaphores(struct caller *caller) {
  caller->semaphores = semget(IPC_PRIVATE, 1, 0600);
  return caller->semaphores >= 0;
}

static void close_semaphores(struct caller *caller) { semctl(caller->semaphores, 0, IPC_RMID); }

CALL enum outcome call_semtimedop(struct caller *caller) {
  struct sembuf take = {0, -1, 0};
  uint64_t asked = some_time(caller);
  struct timespec time = timespec_of(asked);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  int result = semtimedop(caller->semaphores, &take, 1, &time);
  return timed(caller, began, asked, result != 0 && errno == EAGAIN, result == 0 ? 0 : errno);
}

CALL enum outcome call_sigtimedwait(struct caller *caller) {
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGUSR2);
  uint64_t asked = some_time(caller);
  struct timespec time = timespec_of(asked);
  uint64_t began = now_ns(CLOCK_MONOTONIC);
  int result = sigtimedwait(&awaited, NULL, &time);
  if (result == SIGUSR2)
    return WOKEN;
  return timed(caller, began, asked, result < 0 && errno == EAGAIN, errno);
}

/* Wakes callers that wait without a timeout, at most once for each call, so wakeups cannot accumulate. */

static bool begin_waking(struct caller *caller) {
  uint64_t call = atomic_load(&caller->call);
  if (call == 0 || call == caller->woken_call)
    return false;
  caller->woken_call = call;
  return true;
}

static void must(bool is_done, const char *what) {
  if (is_done)
    return;
  perror(what);
  abort();
}

static void send_signal(struct caller *caller, int signal) {
  syscall(SYS_tgkill, getpid(), atomic_load(&caller->tid), signal);
}

/* Every caller blocks SIGUSR2, so this call or the next call takes the signal. */
static void wake_sigtimedwait(struct caller *caller) {
  if (begin_waking(caller))
    send_signal(caller, SIGUSR2);
}

/* Calls without a timeout. */

CALL enum outcome call_pause(struct caller *caller) {
  sig_atomic_t before = caller->signals;
  pause();
  return caller->signals != before ? WOKEN : INTERRUPTED;
}

/* A signal before the call would be counted but wake no thread. So the thread must be blocked: its only blocking call
 * is pause. */
static void wake_pause(struct caller *caller) {
  if (atomic_load(&caller->call) != 0 && is_blocked_in_call(caller) && begin_waking(caller))
    send_signal(caller, SIGUSR1);
}

CALL enum outcome call_read(struct caller *caller) {
  char byte;
  ssize_t result = read(caller->descriptors[0], &byte, 1);
  return untimed(result == 1, errno);
}

static void wake_read(struct caller *caller) {
  if (begin_waking(caller))
    must(write(caller->descriptors[1], "", 1) == 1, "soak: write");
}

static bool open_listener(struct caller *caller) {
  /* Bound to an abstract address of the kernel's choice: unix(7), "Autobind feature". */
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  caller->descriptors[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  caller->descriptors[1] = -1;
  return bind(caller->descriptors[0], (struct sockaddr *)&address, sizeof(sa_family_t)) == 0 &&
         listen(caller->descriptors[0], 128) == 0;
}

static void close_listener(struct caller *caller) { close(caller->descriptors[0]); }

CALL enum outcome call_accept(struct caller *caller) {
  int accepted = accept(caller->descriptors[0], NULL, NULL);
  enum outcome outcome = untimed(accepted >= 0, errno);
  close(accepted);
  return outcome;
}

static void wake_accept(struct caller *caller) {
  struct sockaddr_un address;
  socklen_t length = sizeof address;
  if (!begin_waking(caller))
    return;
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must(getsockname(caller->descriptors[0], (struct sockaddr *)&address, &length) == 0, "soak: getsockname");
  must(connect(descriptor, (struct sockaddr *)&address, length) == 0, "soak: connect");
  close(descriptor);
}

/* Opens two files with two descriptions each: the caller's and, two indices later, the waker's. The waker holds the
 * lock that the caller waits for. Before the waker releases it, the waker locks the other file. */
static bool open_files(struct caller *caller) {
  for (int file = 0; file < 2; file++) {
    char path[64];
    caller->descriptors[file] = memfd_create("soak", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", caller->descriptors[file]);
    caller->descriptors[file + 2] = open(path, O_RDWR | O_CLOEXEC);
    if (caller->descriptors[file + 2] < 0)
      return false;
  }
  return flock(caller->descriptors[2 + 1], LOCK_EX) == 0; /* the first call has the number 1 */
}

static void close_files(struct caller *caller) {
  for (int index = 0; index < 4; index++)
    close(caller->descriptors[index]);
}

CALL enum outcome call_flock(struct caller *caller) {
  int descriptor = caller->descriptors[atomic_load(&caller->call) % 2];
  int result = flock(descriptor, LOCK_EX);
  enum outcome outcome = untimed(result == 0, errno);
  flock(descriptor, LOCK_UN);
  return outcome;
}

static void wake_flock(struct caller *caller) {
  if (!begin_waking(caller))
    return;
  must(flock(caller->descriptors[2 + (caller->woken_call + 1) % 2], LOCK_EX | LOCK_NB) == 0, "soak: flock");
  must(flock(caller->descriptors[2 + caller->woken_call % 2], LOCK_UN) == 0, "soak: flock");
}

CALL enum outcome call_sem_wait(struct caller *caller) {
  int result = sem_wait(&caller->semaphore);
  return untimed(result == 0, errno);
}

static void wake_sem_wait(struct caller *caller) {
  if (begin_waking(caller))
    sem_post(&caller->semaphore);
}

const struct kind kinds[] = {
    {"nanosleep", NULL, call_nanosleep, NULL, NULL},
    {"clock_nanosleep", NULL, call_clock_nanosleep, NULL, NULL},
    {"clock_nanosleep_absolute", NULL, call_clock_nanosleep_absolute, NULL, NULL},
    {"poll", open_pipe, call_poll, NULL, close_descriptors},
    {"ppoll", open_pipe, call_ppoll, NULL, close_descriptors},
    {"select", open_pipe, call_select, NULL, close_descriptors},
    {"epoll_wait", open_epoll, call_epoll_wait, NULL, close_descriptors},
    {"sem_timedwait", open_semaphore, call_sem_timedwait, NULL, close_semaphore},
    {"pthread_cond_timedwait", open_condition, call_pthread_cond_timedwait, NULL, close_condition},
    {"recv", open_sockets, call_recv, NULL, close_descriptors},
    {"semtimedop", open_semaphores, call_semtimedop, NULL, close_semaphores},
    {"sigtimedwait", NULL, call_sigtimedwait, wake_sigtimedwait, NULL},
    {"pause", NULL, call_pause, wake_pause, NULL},
    {"read", open_pipe, call_read, wake_read, close_descriptors},
    {"accept", open_listener, call_accept, wake_accept, close_listener},
    {"flock", open_files, call_flock, wake_flock, close_files},
    {"sem_wait", open_semaphore, call_sem_wait, wake_sem_wait, close_semaphore},
    {"io_uring_enter", open_ring, call_io_uring_enter, NULL, close_ring}, /* must be last: kinds_count */
};

/* Excludes io_uring_enter where a sandbox refuses rings. */
int kinds_count(void) { return (int)(sizeof kinds / sizeof kinds[0]) - !io_uring_is_there(); }

bool kind_may_return_early(int kind) { return kinds[kind].call == call_io_uring_enter; }
