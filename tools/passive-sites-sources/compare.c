/* Lets a thread block at the end of each generated call chain, reads its stack from outside, then takes it by signal, and
 * compares: compare DIRECTORY (for a file to lock). */
#define _GNU_SOURCE
#include "CObserver.h"
#include "sites.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

volatile long sink;
static atomic_int over, started;
static int ends[2], held_lock, wanted_lock;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, condition_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static uint32_t word;
static pid_t child;
static struct observer_slot *slot;

void escape(void *pointer) { sink += (long)pointer; }

__attribute__((noinline)) int churn(int depth) {
  volatile char frame[64];
  frame[0] = (char)depth;
  if (depth > 0)
    return churn(depth - 1) + frame[0];
  usleep(1);
  return frame[0];
}

int block_read(void) {
  char byte;
  while (!over && read(ends[0], &byte, 1) < 0)
    continue;
  return 1;
}

int block_semaphore(void) {
  while (!over)
    sem_wait(&semaphore);
  return 1;
}

int block_mutex(void) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  return 1;
}

int block_futex(void) {
  while (!over)
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
  return 1;
}

int block_condition(void) {
  pthread_mutex_lock(&condition_mutex);
  while (!over)
    pthread_cond_wait(&condition, &condition_mutex);
  pthread_mutex_unlock(&condition_mutex);
  return 1;
}

int block_poll(void) {
  struct pollfd polled = {ends[0], POLLIN, 0};
  while (!over)
    poll(&polled, 1, 5000);
  return 1;
}

int block_nanosleep(void) {
  struct timespec time = {5, 0};
  while (!over)
    nanosleep(&time, NULL);
  return 1;
}

int block_epoll(void) {
  int set = epoll_create1(0);
  struct epoll_event event = {EPOLLIN, {0}};
  epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
  while (!over)
    epoll_wait(set, &event, 1, 5000);
  close(set);
  return 1;
}

int block_select(void) {
  while (!over) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval time = {5, 0};
    select(ends[0] + 1, &set, NULL, NULL, &time);
  }
  return 1;
}

int block_usleep(void) {
  while (!over)
    usleep(900000);
  return 1;
}

int block_flock(void) {
  flock(wanted_lock, LOCK_EX);
  flock(wanted_lock, LOCK_UN);
  return 1;
}

int block_wait(void) {
  int status;
  waitpid(child, &status, 0);
  return 1;
}

static void *run(void *number) {
  observer_slot_begin(slot);
  started = 1;
  sink += sites[(long)number](1, 2, 3, 4, 5, 6, 7, 8);
  observer_slot_end(slot);
  return NULL;
}

/* Ends whatever the thread blocks in, and the thread. */
static void unblock(pthread_t thread) {
  over = 1;
  word = 1;
  kill(child, SIGKILL);
  pthread_mutex_unlock(&mutex);
  flock(held_lock, LOCK_UN);
  sem_post(&semaphore);
  syscall(SYS_futex, &word, FUTEX_WAKE, 9, NULL, NULL, 0);
  pthread_mutex_lock(&condition_mutex);
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&condition_mutex);
  close(ends[1]);
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (until.tv_nsec + 20000000) / 1000000000;
    until.tv_nsec = (until.tv_nsec + 20000000) % 1000000000;
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
      return;
    pthread_kill(thread, SIGURG); /* out of a sleep that began before it was over */
  }
}

static void ignore(int signal) { (void)signal; }

/* Whether the first COUNT frames are the same. The innermost may differ by the length of a system call instruction: after
 * an interruption the kernel has put it back to that instruction. */
static bool same(const struct observer_frame *one, const struct observer_frame *other, uint32_t count) {
  for (uint32_t frame = 0; frame < count; frame++) {
    uint64_t difference = one[frame].address - other[frame].address;
    if (difference != 0 && !(frame == 0 && (difference == 2 || difference == 4)))
      return false;
  }
  return true;
}

int main(int count, char **arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: compare DIRECTORY\n");
    return 2;
  }
  const char *missing = observer_unwind_start();
  int error = missing ? ENOSYS : observer_capture_start(128 << 10);
  if (error == 0)
    error = observer_passive_start(128 << 10);
  if (error != 0) {
    fprintf(stderr, "compare: %s\n", missing ? missing : strerror(error));
    return 1;
  }
  struct sigaction action = {.sa_handler = ignore}; /* without SA_RESTART: it is to interrupt */
  sigaction(SIGURG, &action, NULL);
  slot = observer_slot_table();
  observer_slot_configure(slot, false, 1, 1, 1, 1);
  static struct observer_frame outside[OBSERVER_FRAMES_MAX], signalled[OBSERVER_FRAMES_MAX];
  int equal = 0, cut = 0, wrong = 0;
  for (long number = 0; number < site_count; number++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/lock", arguments[1]);
    over = started = 0;
    word = 0;
    if (pipe(ends) != 0 || sem_init(&semaphore, 0, 0) != 0)
      return 1;
    held_lock = open(path, O_RDWR | O_CREAT, 0600);
    wanted_lock = open(path, O_RDWR);
    flock(held_lock, LOCK_EX);
    pthread_mutex_lock(&mutex);
    child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, run, (void *)number);
    while (!started)
      sched_yield();
    struct observer_slot_view view = observer_slot_read(slot);
    struct observer_look look;
    const struct observer_copy *copy = NULL;
    enum observer_capture_status status = OBSERVER_NOT_BLOCKED;
    for (int attempt = 0; attempt < 1000 && status != OBSERVER_CAPTURED; attempt++) {
      usleep(2000);
      status = observer_capture_passively(view.thread, slot, view.unit, &look, &copy);
    }
    struct observer_stack from_outside = {.frames = outside}, by_signal = {.frames = signalled};
    if (status == OBSERVER_CAPTURED) {
      observer_unwind(copy, &from_outside);
      status = observer_capture(view.thread, slot, view.unit, UINT64_C(2000000000), &copy);
    }
    if (status == OBSERVER_CAPTURED) {
      observer_unwind(copy, &by_signal);
      observer_capture_release(copy);
    }
    uint32_t shorter = from_outside.count < by_signal.count ? from_outside.count : by_signal.count;
    if (status == OBSERVER_CAPTURED && same(outside, signalled, shorter) && from_outside.count == by_signal.count &&
        from_outside.end == by_signal.end)
      equal++;
    else if (status == OBSERVER_CAPTURED && same(outside, signalled, shorter) && from_outside.count == shorter &&
             from_outside.end != OBSERVER_END_OUTERMOST)
      cut++;
    else
      wrong++;
    unblock(thread);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(held_lock);
    close(wanted_lock);
  }
  printf("passive.sites %d places\npassive.equal %d places\npassive.cut %d places\npassive.wrong %d places\n", site_count,
         equal, cut, wrong);
  return wrong > 0;
}
