#define _GNU_SOURCE
#include "TestWorkloads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, visibility("default"), used))

static volatile uint64_t sink;

static void sleep_ns(uint64_t ns) {
  struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  nanosleep(&time, NULL);
}

enum { STORM_PLACES_MAX = 16 };

struct workload_storm {
  int count;
  uint64_t (*begin)(void *, int);
  void (*end)(void *, int);
  void *context;
  atomic_bool stop;
  pthread_t makers[STORM_PLACES_MAX];
  struct storm_place {
    struct workload_storm *storm;
    int place;
    uint64_t round;
  } places[STORM_PLACES_MAX];
};

/* An unlikely value. A sign consists of this word, the place, the work item (0 before it begins), and a checksum. The
 * checksum excludes partly overwritten signs in reused stack memory. */
#define STORM_SIGN UINT64_C(0x9d3b5f6a71c8e24b)
enum { STORM_SIGN_WORDS = 4 };

static uint64_t storm_sum(uint64_t place, uint64_t number) { return (STORM_SIGN ^ place) * 31 + number; }

static void *storm_thread(void *argument) {
  struct storm_place *place = argument;
  uint64_t own_place = (uint64_t)place->place;
  volatile uint64_t sign[STORM_SIGN_WORDS] = {STORM_SIGN, own_place, 0, storm_sum(own_place, 0)};
  sign[2] = place->storm->begin(place->storm->context, place->place);
  sign[3] = storm_sum(own_place, sign[2]);
  workload_spin(workload_now_ns() + place->round * 7919 % 2000000, NULL);
  if (place->round % 2 == 0)
    place->storm->end(place->storm->context, place->place);
  sink += sign[0];
  return NULL;
}

static void *storm_maker(void *argument) {
  struct storm_place *place = argument;
  while (!place->storm->stop) {
    pthread_t thread;
    place->round++;
    if (pthread_create(&thread, NULL, storm_thread, place) == 0)
      pthread_join(thread, NULL);
  }
  return NULL;
}

struct workload_storm *workload_storm_start(int count, uint64_t (*begin)(void *, int), void (*end)(void *, int),
                                            void *context) {
  struct workload_storm *storm = calloc(1, sizeof *storm);
  storm->count = count < STORM_PLACES_MAX ? count : STORM_PLACES_MAX;
  storm->begin = begin;
  storm->end = end;
  storm->context = context;
  for (int place = 0; place < storm->count; place++) {
    storm->places[place] = (struct storm_place){storm, place, (uint64_t)place * 31};
    pthread_create(&storm->makers[place], NULL, storm_maker, &storm->places[place]);
  }
  return storm;
}

void workload_storm_stop(struct workload_storm *storm) {
  storm->stop = true;
  for (int place = 0; place < storm->count; place++)
    pthread_join(storm->makers[place], NULL);
  free(storm);
}

enum workload_storm_sign workload_storm_shows(const uint8_t *stack, uint64_t bytes, int place, uint64_t number) {
  enum workload_storm_sign shown = WORKLOAD_STORM_NOTHING;
  for (uint64_t at = 0; at + STORM_SIGN_WORDS * 8 <= bytes; at += 8) {
    uint64_t sign[STORM_SIGN_WORDS];
    memcpy(sign, stack + at, sizeof sign);
    if (sign[0] != STORM_SIGN || sign[3] != storm_sum(sign[1], sign[2]))
      continue;
    if (sign[1] == (uint64_t)place && (sign[2] == number || sign[2] == 0))
      return WORKLOAD_STORM_RIGHT;
    shown = WORKLOAD_STORM_WRONG;
  }
  return shown;
}

struct departure {
  void (*begin)(void *);
  void *context;
  int id;
};

static void *leave(void *argument) {
  struct departure *departure = argument;
  departure->begin(departure->context);
  departure->id = (int)syscall(SYS_gettid);
  syscall(SYS_exit, 0);
  return NULL;
}

int workload_leave_abruptly(void (*begin)(void *), void *context) {
  struct departure departure = {begin, context, 0};
  pthread_t thread;
  if (pthread_create(&thread, NULL, leave, &departure) == 0)
    pthread_join(thread, NULL);
  return departure.id;
}

KEPT void workload_compute_as_another(const volatile int *stop) {
  workload_spin(UINT64_MAX, stop);
  sink++;
}

static void compute_if_wanted(void *id, const volatile int *stop) {
  if ((int)syscall(SYS_gettid) == (int)(intptr_t)id)
    workload_compute_as_another(stop);
}

/* The kernel gives the next thread the first free id after the number in this file. */
static bool prepare_id(int id) {
  char text[16];
  int length = snprintf(text, sizeof text, "%d", id - 1);
  int descriptor = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  bool written = write(descriptor, text, (size_t)length) == length;
  close(descriptor);
  return written;
}

struct workload_thread *workload_thread_with_id(int id) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d", id);
  for (int attempt = 0; attempt < 10000 && prepare_id(id); attempt++) {
    struct workload_thread *thread = workload_thread_start(compute_if_wanted, (void *)(intptr_t)id);
    if (access(path, F_OK) == 0)
      return thread;
    workload_thread_stop(thread); /* another thread or process got the id */
  }
  return NULL;
}

static atomic_int child_may_end;
static atomic_bool child_has_ended;

bool workload_child_has_ended(void) { return child_has_ended; }

void workload_end_child(void) { child_may_end = 1; }

KEPT void workload_wait_for_child(const volatile int *stop) {
  struct timespec moment = {0, 1000000};
  child_may_end = 0;
  child_has_ended = false;
  /* The child shares this thread's memory and stack, and must barely use them. */
  pid_t child = vfork();
  if (child == 0) {
    while (!child_may_end)
      syscall(SYS_nanosleep, &moment, NULL);
    _exit(0);
  }
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
    continue;
  child_has_ended = true;
  workload_spin(UINT64_MAX, stop);
  sink++;
}

KEPT void workload_wait_deaf(const volatile int *stop) {
  sigset_t deaf, before;
  sigemptyset(&deaf);
  sigaddset(&deaf, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &deaf, &before);
  while (!*stop)
    sleep_ns(50000000);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The control group that freezes this process: its directory and the texts that freeze and thaw it. */
struct freezer {
  const char *root, *file, *freeze, *thaw;
  char directory[128];
};

static bool write_text(const char *directory, const char *name, const char *text) {
  char path[192];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  bool is_written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
  if (file >= 0)
    close(file);
  return is_written;
}

static bool enter_freezer(struct freezer *freezer, pid_t pid) {
  char id[16];
  snprintf(id, sizeof id, "%d", pid);
  snprintf(freezer->directory, sizeof freezer->directory, "%s/culprit-test-%d", freezer->root, pid);
  return mkdir(freezer->directory, 0700) == 0 && write_text(freezer->directory, "cgroup.procs", id);
}

static void leave_freezer(const struct freezer *freezer, pid_t pid) {
  char id[16];
  snprintf(id, sizeof id, "%d", pid);
  write_text(freezer->root, "cgroup.procs", id);
  rmdir(freezer->directory);
}

static bool is_asleep(pid_t pid) {
  char path[32], text[512] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = file >= 0 ? read(file, text, sizeof text - 1) : 0;
  if (file >= 0)
    close(file);
  const char *name_end = bytes > 0 ? strrchr(text, ')') : NULL;
  return name_end && strncmp(name_end, ") S", 3) == 0;
}

const volatile uint64_t *workload_stop_process(enum workload_stop way, uint64_t before_ns, uint64_t during_ns) {
  static struct freezer freezers[] = {
      [WORKLOAD_STOP_BY_FREEZER] = {"/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED", ""},
      [WORKLOAD_STOP_BY_FREEZER2] = {"/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0", ""},
  };
  volatile uint64_t *stopped_ns =
      mmap(NULL, sizeof *stopped_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (stopped_ns == MAP_FAILED)
    abort();
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0)
    abort();
  pid_t child = fork();
  if (child == 0) {
    pid_t parent = getppid();
    bool is_freezer = way == WORKLOAD_STOP_BY_FREEZER || way == WORKLOAD_STOP_BY_FREEZER2;
    struct freezer *freezer = is_freezer ? &freezers[way] : NULL;
    char is_possible = !freezer || enter_freezer(freezer, parent);
    if (write(ready[1], &is_possible, 1) != 1 || !is_possible)
      _exit(1);
    sleep_ns(before_ns);
    /* Checks twice in a row, because the parent can briefly wait for something else. */
    for (int seen = 0; way == WORKLOAD_STOP_ASLEEP && seen < 2 && getppid() == parent;) {
      seen = is_asleep(parent) ? seen + 1 : 0;
      sleep_ns(2000000);
    }
    uint64_t from = workload_now_ns();
    if (freezer)
      write_text(freezer->directory, freezer->file, freezer->freeze);
    else
      kill(parent, SIGSTOP);
    sleep_ns(during_ns);
    uint64_t length = workload_now_ns() - from;
    if (freezer) {
      write_text(freezer->directory, freezer->file, freezer->thaw);
      leave_freezer(freezer, parent);
    } else {
      kill(parent, SIGCONT);
    }
    *stopped_ns = length;
    _exit(0);
  }
  char is_possible = 0;
  bool has_answer = child > 0 && read(ready[0], &is_possible, 1) == 1;
  close(ready[0]);
  close(ready[1]);
  return has_answer && is_possible ? stopped_ns : NULL;
}

int32_t workload_be_traced(void) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0)
    abort();
  pid_t child = fork();
  if (child == 0) {
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char is_attached = ptrace(PTRACE_SEIZE, parent, NULL, NULL) == 0;
    if (write(ready[1], &is_attached, 1) != 1 || !is_attached)
      _exit(1);
    for (;;)
      pause();
  }
  char is_attached = 0;
  bool has_answer = child > 0 && read(ready[0], &is_attached, 1) == 1;
  close(ready[0]);
  close(ready[1]);
  return has_answer && is_attached ? child : 0;
}

static struct {
  bool waits;
  const volatile int *stop;
  _Atomic bool has_begun;
} handling;

bool workload_handler_has_begun(void) { return handling.has_begun; }

KEPT void workload_stay(void) {
  handling.has_begun = true;
  if (handling.waits)
    while (!*handling.stop)
      sleep_ns(100000000);
  else
    workload_spin(UINT64_MAX, handling.stop);
  sink++;
}

KEPT void workload_handler(int signal) {
  (void)signal;
  workload_stay();
  sink++;
}

/* Threads of Dispatch block the signal, and their children inherit the mask. */
static void let_signal_through(void) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR2);
  pthread_sigmask(SIG_UNBLOCK, &wanted, NULL);
}

enum { ALTERNATE_BYTES = 64 << 10 };

static void *use_alternate_stack(void) {
  void *stack = mmap(NULL, ALTERNATE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t alternate = {.ss_sp = stack, .ss_size = ALTERNATE_BYTES};
  if (stack == MAP_FAILED || sigaltstack(&alternate, NULL) != 0)
    abort();
  return stack;
}

static void leave_alternate_stack(void *stack) {
  stack_t none = {.ss_flags = SS_DISABLE};
  sigaltstack(&none, NULL);
  munmap(stack, ALTERNATE_BYTES);
}

KEPT void workload_stay_in_handler(bool alternate, bool waits, const volatile int *stop) {
  handling.waits = waits;
  handling.stop = stop;
  void *stack = alternate ? use_alternate_stack() : NULL;
  struct sigaction action = {.sa_handler = workload_handler, .sa_flags = alternate ? SA_ONSTACK : 0};
  sigaction(SIGUSR2, &action, NULL);
  let_signal_through();
  pthread_kill(pthread_self(), SIGUSR2);
  handling.has_begun = false;
  if (alternate)
    leave_alternate_stack(stack);
}

static _Atomic int raised_by;

KEPT void workload_handle_first(void) { workload_spin(workload_now_ns() + 20000, NULL); }

KEPT void workload_handle_second(void) { workload_spin(workload_now_ns() + 20000, NULL); }

KEPT void workload_handler_in_turn(int signal) {
  (void)signal;
  if (raised_by == 1)
    workload_handle_first();
  else
    workload_handle_second();
  sink++;
}

KEPT void workload_raise_first(void) {
  raised_by = 1;
  pthread_kill(pthread_self(), SIGUSR2);
  sink++;
}

KEPT void workload_raise_second(void) {
  raised_by = 2;
  pthread_kill(pthread_self(), SIGUSR2);
  sink++;
}

KEPT void workload_raise_in_turn(const volatile int *stop) {
  void *stack = use_alternate_stack();
  struct sigaction action = {.sa_handler = workload_handler_in_turn, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR2, &action, NULL);
  let_signal_through();
  while (!*stop) {
    workload_raise_first();
    workload_raise_second();
  }
  leave_alternate_stack(stack);
}
