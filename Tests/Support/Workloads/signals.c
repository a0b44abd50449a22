#define _GNU_SOURCE
#include "TestWorkloads.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Makes every later mkdirat(2) of the process raise SIGSYS. */
static bool trap_mkdir(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* An unreadable page, and a page beyond the end of its file. */
static volatile int *unreadable_page(void) {
  static void *page;
  if (!page)
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page;
}

static volatile int *beyond_file(void) {
  int descriptor = (int)syscall(SYS_memfd_create, "empty", MFD_CLOEXEC);
  return mmap(NULL, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
}

enum { DYING_TOGETHER = 8 };

static void *die_with_others(void *barrier) {
  pthread_barrier_wait(barrier);
  workload_die("no-instruction");
  return NULL;
}

static void die_together(void) {
  static pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, DYING_TOGETHER);
  pthread_t threads[DYING_TOGETHER];
  for (int index = 0; index < DYING_TOGETHER; index++)
    pthread_create(&threads[index], NULL, die_with_others, &barrier);
  for (int index = 0; index < DYING_TOGETHER; index++)
    pthread_join(threads[index], NULL);
}

int64_t workload_die(const char *way) {
  if (strcmp(way, "together") == 0) {
    die_together();
  } else if (strcmp(way, "breakpoint") == 0) {
#if defined(__x86_64__)
    __asm__ volatile("int3");
#else
    __asm__ volatile("brk #0");
#endif
  } else if (strcmp(way, "seccomp") == 0) {
    if (!trap_mkdir())
      return -2;
    return syscall(SYS_mkdirat, AT_FDCWD, "/nowhere/at/all", 0700);
  } else if (strcmp(way, "unmapped") == 0) {
    return *unreadable_page();
  } else if (strcmp(way, "cut-file") == 0) {
    return *beyond_file();
  } else if (strcmp(way, "no-instruction") == 0) {
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#else
    __asm__ volatile("udf #0");
#endif
  } else if (strcmp(way, "division") == 0) {
#if defined(__x86_64__)
    static volatile int zero;
    return 1 / zero;
#else
    raise(SIGFPE); /* a division by zero is no fault on this architecture */
#endif
  } else if (strcmp(way, "abort") == 0) {
    abort();
  } else if (strncmp(way, "raise-", 6) == 0) {
    raise(atoi(way + 6));
  } else if (strncmp(way, "kill-", 5) == 0) {
    kill(getpid(), atoi(way + 5));
    usleep(200000);
  } else if (strncmp(way, "queue-", 6) == 0) {
    sigqueue(getpid(), atoi(way + 6), (union sigval){.sival_int = 1});
    usleep(200000);
  }
  return -1;
}

static volatile sig_atomic_t recovered;
static sigjmp_buf back;

static void recover_by_returning(int signal, siginfo_t *information, void *context) {
  (void)information;
  recovered = recovered + 1;
  if (signal == SIGSEGV)
    mprotect((void *)(uintptr_t)unreadable_page(), 4096, PROT_READ | PROT_WRITE);
#if defined(__x86_64__)
  if (signal == SIGSYS)
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EACCES;
#else
  if (signal == SIGSYS)
    ((ucontext_t *)context)->uc_mcontext.regs[0] = (unsigned long long)-EACCES;
  if (signal == SIGTRAP)
    ((ucontext_t *)context)->uc_mcontext.pc += 4;
#endif
}

static void recover_by_jumping(int signal) {
  (void)signal;
  recovered = recovered + 1;
  siglongjmp(back, 1);
}

/* Like the crash handlers of many services. */
static void die_by_default_action(int signal) {
  recovered = recovered + 1;
  struct sigaction action = {.sa_handler = SIG_DFL};
  sigaction(signal, &action, NULL);
  raise(signal);
}

/* The handler that workload_recover_from has replaced. */
static struct sigaction before;

/* Like crash reporters, which call the replaced handler, or restore it and let the fault recur. */
static void call_former(int signal, siginfo_t *information, void *context) {
  recovered = recovered + 1;
  before.sa_sigaction(signal, information, context);
}

static void restore_former(int signal) {
  recovered = recovered + 1;
  sigaction(signal, &before, NULL);
}

void workload_recover_from(int signal, const char *way) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  if (strcmp(way, "returning") == 0) {
    action.sa_sigaction = recover_by_returning;
    action.sa_flags = SA_SIGINFO;
  } else if (strcmp(way, "calling") == 0) {
    action.sa_sigaction = call_former;
    action.sa_flags = SA_SIGINFO;
  } else if (strcmp(way, "restoring") == 0) {
    action.sa_handler = restore_former;
  } else {
    action.sa_handler = strcmp(way, "jumping") == 0 ? recover_by_jumping : die_by_default_action;
  }
  sigaction(signal, &action, &before);
}

int64_t workload_die_or_jump(const char *way) { return sigsetjmp(back, 1) == 0 ? workload_die(way) : -3; }

int workload_recovered(void) { return recovered; }

void workload_signal_thread(int tid, int signal) { syscall(SYS_tgkill, getpid(), tid, signal); }

bool workload_be_in_groups(int count) {
  gid_t *groups = calloc((size_t)count, sizeof *groups);
  for (int index = 0; index < count; index++)
    groups[index] = (gid_t)(4000000000U + (unsigned)index);
  /* The bare system call affects only the calling thread (nptl(7)). */
  bool is_done = syscall(SYS_setgroups, (long)count, groups) == 0;
  free(groups);
  return is_done;
}

bool workload_use_up_pending_signals(void) {
  struct rlimit none = {0, 0};
  return setrlimit(RLIMIT_SIGPENDING, &none) == 0;
}

void workload_break_standard_error(void) {
  int ends[2];
  signal(SIGPIPE, SIG_DFL);
  if (pipe(ends) != 0)
    abort();
  dup2(ends[1], STDERR_FILENO);
  close(ends[0]);
  close(ends[1]);
}

void workload_fill_standard_error(const char *path) {
  signal(SIGXFSZ, SIG_DFL);
  int descriptor = open(path, O_WRONLY | O_CREAT, 0600);
  struct rlimit little = {64, 64};
  setrlimit(RLIMIT_FSIZE, &little);
  dup2(descriptor, STDERR_FILENO);
  close(descriptor);
}

uint64_t workload_blocked_signals(void) {
  uint64_t mask = 0;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask);
  return mask;
}

void workload_block_signal(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int workload_read_by_descriptor(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

int workload_compute_and_wait_for_signals(uint64_t work_ns, uint64_t wait_ns, uint64_t deadline_ns) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  struct timespec patience = {(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)};
  int first = 0;
  while (workload_now_ns() < deadline_ns) {
    workload_spin(workload_now_ns() + work_ns, NULL);
    int signal = sigtimedwait(&all, NULL, &patience);
    if (signal > 0 && first == 0)
      first = signal;
  }
  return first;
}

static volatile uint64_t foreign_mask;

static void note_mask(int signal) {
  (void)signal;
  foreign_mask = workload_blocked_signals();
}

void workload_install_masking_handler(int blocked) {
  struct sigaction action = {.sa_handler = note_mask};
  sigaddset(&action.sa_mask, blocked);
  sigaction(SIGPROF, &action, NULL);
}

uint64_t workload_mask_in_handler(void) { return foreign_mask; }

bool workload_become_unusual(void) {
  cpu_set_t first;
  CPU_ZERO(&first);
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all)) {
      CPU_SET(cpu, &first);
      break;
    }
  struct sched_param parameter = {.sched_priority = 10};
  sched_setaffinity(0, sizeof first, &first);
  /* Before the real-time policy, which has no timer slack. */
  prctl(PR_SET_TIMERSLACK, 200000000, 0, 0, 0);
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -5);
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) == 0)
    return true;
  /* SCHED_BATCH needs no privileges. */
  parameter.sched_priority = 0;
  sched_setscheduler(0, SCHED_BATCH, &parameter);
  return false;
}

void workload_describe_thread(int tid, char *text, uint64_t length) {
  cpu_set_t own;
  CPU_ZERO(&own);
  sched_getaffinity(tid, sizeof own, &own);
  char path[64], slack[32] = "";
  snprintf(path, sizeof path, "/proc/%d/timerslack_ns", tid);
  FILE *file = fopen(path, "re");
  if (file) {
    if (!fgets(slack, sizeof slack, file))
      slack[0] = 0;
    fclose(file);
    slack[strcspn(slack, "\n")] = 0;
  }
  snprintf(text, length, "policy %d, nice %d, processors %d%s%s", sched_getscheduler(tid),
           getpriority(PRIO_PROCESS, (id_t)tid), CPU_COUNT(&own), slack[0] ? ", slack " : "", slack);
}
