/* The blocking functions of the call chains. */
#define _GNU_SOURCE
#include "sites.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile long sink;
volatile int dry, over, arrived;
static int ends[2], held_lock, wanted_lock;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, condition_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static uint32_t word;
static pid_t child;

__attribute__((noinline)) void escape(void *pointer) { sink += (long)pointer; }

__attribute__((noinline)) void seldom(void) { sink++; }

int is_dry(void) { return dry; }

int is_over(void) { return over; }

void arrive(void) { arrived = 1; }

__attribute__((noinline)) int churn(int depth) {
  volatile char frame[64];
  frame[0] = (char)depth;
  if (depth > 0)
    return churn(depth - 1) + frame[0];
  usleep(1);
  return frame[0];
}

__attribute__((noinline)) void deeper(int depth, int (*function)(void *), void *context) {
  volatile char frame[40];
  frame[0] = (char)depth;
  if (depth > 0) {
    deeper(depth - 1, function, context);
  } else {
    dry++;
    sink += function(context);
    dry--;
  }
  sink += frame[0];
}

/* Defines a function NAME that blocks in the following body, unless `dry` is above 0. */
#define PLACE(name)                                                                                                    \
  static inline __attribute__((always_inline)) void name##_now(void);                                                  \
  int name(void) {                                                                                                     \
    if (!dry) {                                                                                                        \
      arrived = 1;                                                                                                     \
      name##_now();                                                                                                    \
    }                                                                                                                  \
    return 1;                                                                                                          \
  }                                                                                                                    \
  void name##_now(void)

PLACE(block_read) {
  char byte;
  while (!over && read(ends[0], &byte, 1) < 0)
    continue;
}

PLACE(block_semaphore) {
  while (!over)
    sem_wait(&semaphore);
}

PLACE(block_mutex) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}

PLACE(block_futex) {
  while (!over)
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

PLACE(block_condition) {
  pthread_mutex_lock(&condition_mutex);
  while (!over)
    pthread_cond_wait(&condition, &condition_mutex);
  pthread_mutex_unlock(&condition_mutex);
}

PLACE(block_poll) {
  struct pollfd polled = {ends[0], POLLIN, 0};
  while (!over)
    poll(&polled, 1, 5000);
}

PLACE(block_nanosleep) {
  struct timespec time = {5, 0};
  while (!over)
    nanosleep(&time, NULL);
}

PLACE(block_epoll) {
  int set = epoll_create1(0);
  struct epoll_event event = {EPOLLIN, {0}};
  epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
  while (!over)
    epoll_wait(set, &event, 1, 5000);
  close(set);
}

PLACE(block_select) {
  while (!over) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval time = {5, 0};
    select(ends[0] + 1, &set, NULL, NULL, &time);
  }
}

PLACE(block_usleep) {
  while (!over)
    usleep(900000);
}

PLACE(block_flock) {
  flock(wanted_lock, LOCK_EX);
  flock(wanted_lock, LOCK_UN);
}

PLACE(block_wait) {
  int status;
  waitpid(child, &status, 0);
}

void blocks_prepare(const char *file_to_lock) {
  over = arrived = 0;
  word = 0;
  if (pipe(ends) != 0 || sem_init(&semaphore, 0, 0) != 0)
    abort();
  held_lock = open(file_to_lock, O_RDWR | O_CREAT, 0600);
  wanted_lock = open(file_to_lock, O_RDWR);
  flock(held_lock, LOCK_EX);
  pthread_mutex_lock(&mutex);
  child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
}

void blocks_end(void) {
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
  waitpid(child, NULL, 0);
  close(held_lock);
}
