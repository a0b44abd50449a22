#define _GNU_SOURCE
#include "processes.h"
#include "cause_work.h"
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

pid_t cause_fork(void) {
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(60);
    if (getppid() != parent)
      _exit(0);
  }
  return child;
}

void cause_end_child(pid_t child) {
  if (child <= 0)
    return;
  kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
    ;
}

pid_t cause_late_writer(int descriptor, unsigned milliseconds) {
  pid_t child = cause_fork();
  if (child == 0) {
    usleep(milliseconds * 1000);
    cause_ignore(write(descriptor, "done\n", 5));
    _exit(0);
  }
  return child;
}

pid_t cause_late_reader(int descriptor, unsigned milliseconds) {
  static char bytes[65536];
  pid_t child = cause_fork();
  if (child == 0) {
    usleep(milliseconds * 1000);
    while (read(descriptor, bytes, sizeof bytes) > 0)
      ;
    _exit(0);
  }
  return child;
}

pid_t cause_busy_child(int processor) {
  pid_t child = cause_fork();
  if (child == 0) {
    volatile uint64_t count = 0;
    cause_pin(processor);
    for (;;)
      count += 1;
  }
  return child;
}

pid_t cause_stopper(unsigned after, unsigned milliseconds) {
  pid_t parent = getpid(), child = cause_fork();
  if (child == 0) {
    usleep(after * 1000);
    kill(parent, SIGSTOP);
    usleep(milliseconds * 1000);
    kill(parent, SIGCONT);
    _exit(0);
  }
  return child;
}

pid_t cause_program(const char *path, char *const arguments[]) {
  pid_t child = -1;
  return posix_spawn(&child, path, NULL, NULL, arguments, environ) == 0 ? child : -1;
}

pid_t cause_late_opener(const char *path, unsigned milliseconds) {
  pid_t child = cause_fork();
  if (child == 0) {
    usleep(milliseconds * 1000);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    cause_ignore(write(file, "done\n", 5));
    _exit(0);
  }
  return child;
}

NOT_INLINED void read_stock_report(int descriptor) {
  char line[100];
  ssize_t count = read(descriptor, line, sizeof line);
  cause_sink += (uint64_t)count;
}

NOT_INLINED void open_order_pipe(const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  cause_sink += (uint64_t)file;
  close(file);
}

NOT_INLINED void run_backup(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  cause_sink += (uint64_t)status + 1;
}

NOT_INLINED void run_night_script(void) {
  int status = system("sleep 1.8");
  cause_sink += (uint64_t)status + 1;
}

/* CPUs. */

static char delay_file[64];

int cause_hide_delay(void) {
  snprintf(delay_file, sizeof delay_file, "/proc/self/task/%d/schedstat", (int)gettid());
  return mount("/dev/null", delay_file, NULL, MS_BIND, NULL) == 0 ? 0 : errno;
}

void cause_show_delay(void) { umount2(delay_file, MNT_DETACH); }

uint64_t cause_delay(void) {
  char text[100] = "";
  unsigned long long used = 0, delay = 0;
  int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  cause_ignore(read(file, text, sizeof text - 1));
  close(file);
  return sscanf(text, "%llu %llu", &used, &delay) == 2 ? delay : 0;
}

int cause_pin(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0 ? 0 : errno;
}

int cause_first_processor(void) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) == 0)
    for (int i = 0; i < CPU_SETSIZE; i++)
      if (CPU_ISSET(i, &all))
        return i;
  return 0;
}

int cause_lower_priority(int nice) {
  struct sched_param none = {0};
  if (nice <= 19)
    return setpriority(PRIO_PROCESS, (id_t)gettid(), nice) == 0 ? 0 : errno;
  return sched_setscheduler(0, SCHED_IDLE, &none) == 0 ? 0 : errno;
}

NOT_INLINED void forecast_demand(uint64_t end) {
  uint64_t value = 1;
  while (cause_now() < end) {
    for (int i = 0; i < 5000; i++)
      value = value * 3202034522624059733u + (value >> 31);
    cause_sink += value;
  }
}

void cause_spin(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(3600);
  for (;;)
    __asm__ volatile("" ::: "memory");
}
