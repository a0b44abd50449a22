#define _GNU_SOURCE
#include "stress_harm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The page that this process shares. */
static struct stress_shared *own_page;

struct stress_shared *stress_share(const char *path) {
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0)
    return NULL;
  void *page = MAP_FAILED;
  if (ftruncate(file, sizeof(struct stress_shared)) == 0)
    page = mmap(NULL, sizeof(struct stress_shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED)
    return NULL;
  own_page = page;
  return page;
}

uint64_t stress_stopped_ns(struct stress_shared *shared) { return shared->stopped_ns; }

void stress_add_stopped(struct stress_shared *shared, uint64_t ns) { shared->stopped_ns += ns; }

void stress_beat(struct stress_shared *shared) { shared->beats++; }

uint64_t stress_beats(struct stress_shared *shared) { return shared->beats; }

uint64_t stress_early(struct stress_shared *shared) { return shared->early; }

bool stress_is_quiet(struct stress_shared *shared, int32_t tid) {
  for (size_t index = 0; index < sizeof shared->quiet / sizeof shared->quiet[0]; index++)
    if (shared->quiet[index] == tid)
      return true;
  return false;
}

uint64_t stress_now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t stress_running_ns(void) {
  uint64_t stopped = own_page != NULL ? own_page->stopped_ns : 0;
  return stress_now_ns() - stopped;
}

static _Atomic uint64_t handled, stolen;

static void handle(int signal, siginfo_t *information, void *context) {
  (void)signal;
  (void)context;
  int error = errno;
  char name[16] = "";
  handled++;
  if (information->si_code == SI_USER && prctl(PR_GET_NAME, name) == 0 && strncmp(name, "culprit-", 8) == 0)
    stolen++;
  errno = error;
}

uint64_t stress_signals(void) { return handled; }

uint64_t stress_stolen_signals(void) { return stolen; }

static const int restarting[] = {SIGUSR1, SIGALRM, SIGVTALRM, SIGPROF, SIGURG, SIGIO, SIGQUIT};
static const int interrupting[] = {SIGUSR2, SIGTERM, SIGINT, SIGXCPU, SIGPWR, SIGSTKFLT};
static const int ignored[] = {SIGPIPE, SIGTTIN, SIGTTOU, SIGTSTP, SIGXFSZ};
/* Their default action is to do nothing. */
static const int untouched[] = {SIGCHLD, SIGWINCH, SIGCONT};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

void stress_install_handlers(void) {
  struct sigaction action = {.sa_sigaction = handle};
  /* One at a time: the alternate stack that Swift gives the first thread has room for a few signal frames only. */
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGPROF);
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  for (size_t index = 0; index < COUNT(restarting); index++)
    sigaction(restarting[index], &action, NULL);
  for (int signal = SIGRTMIN; signal <= SIGRTMIN + 3; signal++)
    sigaction(signal, &action, NULL);
  action.sa_flags = SA_SIGINFO;
  for (size_t index = 0; index < COUNT(interrupting); index++)
    sigaction(interrupting[index], &action, NULL);
  for (size_t index = 0; index < COUNT(ignored); index++)
    signal(ignored[index], SIG_IGN);
}

int stress_signal(uint64_t number) {
  size_t all = COUNT(restarting) + COUNT(interrupting) + COUNT(ignored) + COUNT(untouched) + 4;
  size_t index = number % all;
  if (index < COUNT(restarting))
    return restarting[index];
  index -= COUNT(restarting);
  if (index < COUNT(interrupting))
    return interrupting[index];
  index -= COUNT(interrupting);
  if (index < COUNT(ignored))
    return ignored[index];
  index -= COUNT(ignored);
  return index < COUNT(untouched) ? untouched[index] : SIGRTMIN + (int)(index - COUNT(untouched));
}

bool stress_send(int32_t process, int32_t tid, int signal) { return syscall(SYS_tgkill, process, tid, signal) == 0; }

/* Odd while SIGPROF comes to whatever thread the kernel likes. */
_Atomic uint64_t stress_profiling;

void stress_profile(uint32_t microseconds, uint32_t for_microseconds) {
  struct itimerval timer = {{0, (suseconds_t)microseconds}, {0, (suseconds_t)microseconds}}, off = {{0, 0}, {0, 0}};
  stress_profiling++;
  setitimer(ITIMER_PROF, &timer, NULL);
  uint64_t end = stress_now_ns() + (uint64_t)for_microseconds * 1000;
  while (stress_now_ns() < end)
    usleep(1000);
  setitimer(ITIMER_PROF, &off, NULL);
  /* The last one may be on its way. */
  usleep(20000);
  stress_profiling++;
}

int stress_break_standard_error(void) {
  int ends[2];
  int former = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (former < 0)
    return -1;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    close(former);
    return -1;
  }
  dup2(ends[1], STDERR_FILENO);
  close(ends[0]);
  close(ends[1]);
  signal(SIGPIPE, SIG_DFL);
  return former;
}

void stress_mend_standard_error(int former) {
  signal(SIGPIPE, SIG_IGN);
  dup2(former, STDERR_FILENO);
  close(former);
}

int stress_await_hangups(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool stress_take_hangup(int descriptor, int milliseconds) {
  struct signalfd_siginfo information;
  uint64_t end = stress_now_ns() + (uint64_t)milliseconds * 1000000;
  do {
    struct pollfd entry = {descriptor, POLLIN, 0};
    poll(&entry, 1, 100);
    if (read(descriptor, &information, sizeof information) == sizeof information)
      return true;
  } while (stress_now_ns() < end);
  return false;
}

int stress_step_clock(int64_t seconds, uint32_t microseconds) {
  struct timespec time, began, now;
  clock_gettime(CLOCK_MONOTONIC, &began);
  clock_gettime(CLOCK_REALTIME, &time);
  struct timespec stepped = {time.tv_sec + (time_t)seconds, time.tv_nsec};
  if (clock_settime(CLOCK_REALTIME, &stepped) != 0)
    return errno;
  usleep(microseconds);
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t passed = (now.tv_sec - began.tv_sec) * 1000000000ll + now.tv_nsec - began.tv_nsec + time.tv_nsec;
  struct timespec right = {time.tv_sec + passed / 1000000000ll, passed % 1000000000ll};
  return clock_settime(CLOCK_REALTIME, &right) == 0 ? 0 : errno;
}
