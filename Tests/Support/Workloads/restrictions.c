#define _GNU_SOURCE
#include "TestWorkloads.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
  const char *name;
  uint32_t number;
} calls[] = {
    {"process_vm_readv", SYS_process_vm_readv},
    {"timer_create", SYS_timer_create},
    {"rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo},
    {"sched_setaffinity", SYS_sched_setaffinity},
    {"sched_setscheduler", SYS_sched_setscheduler},
    {"memfd_create", SYS_memfd_create},
    {"statx", SYS_statx},
    {"unshare", SYS_unshare},
    {"perf_event_open", SYS_perf_event_open},
    {"newfstatat", SYS_newfstatat},
    {"clone", SYS_clone},
    {"clone3", SYS_clone3},
};

bool workload_refuse_call(const char *name) {
  for (size_t index = 0; index < sizeof calls / sizeof calls[0]; index++) {
    if (strcmp(calls[index].name, name) != 0)
      continue;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[index].number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
  }
  return false;
}

/* Calls outside systemd's SystemCallFilter=@system-service (systemd 252) that current kernels still implement. */
static const uint32_t not_of_services[] = {
    SYS_mincore,         SYS_ptrace,
    SYS_syslog,          SYS_vhangup,
    SYS_pivot_root,      SYS_adjtimex,
    SYS_chroot,          SYS_acct,
    SYS_settimeofday,    SYS_mount,
    SYS_umount2,         SYS_swapon,
    SYS_swapoff,         SYS_reboot,
    SYS_sethostname,     SYS_setdomainname,
    SYS_init_module,     SYS_delete_module,
    SYS_quotactl,        SYS_lookup_dcookie,
    SYS_clock_settime,   SYS_kexec_load,
    SYS_perf_event_open, SYS_fanotify_init,
    SYS_fanotify_mark,   SYS_open_by_handle_at,
    SYS_clock_adjtime,   SYS_finit_module,
    SYS_seccomp,         SYS_bpf,
    SYS_pkey_mprotect,   SYS_pkey_alloc,
    SYS_pkey_free,       SYS_open_tree,
    SYS_move_mount,      SYS_fsopen,
    SYS_fsconfig,        SYS_fsmount,
    SYS_fspick,          SYS_pidfd_getfd,
    SYS_mount_setattr,
};

bool workload_be_killed_for_calls(void) {
  enum { CALLS = sizeof not_of_services / sizeof not_of_services[0] };
  struct sock_filter filter[2 * CALLS + 2];
  size_t count = 0;
  filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t index = 0; index < CALLS; index++) {
    filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, not_of_services[index], 0, 1);
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }
  filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {(unsigned short)count, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

bool workload_take_own_descriptors(void) { return unshare(CLONE_FILES) == 0; }

bool workload_become_undumpable(void) {
  const uid_t nobody = 65534;
  if (geteuid() == 0 &&
      (setgroups(0, NULL) != 0 || setresgid(nobody, nobody, nobody) != 0 || setresuid(nobody, nobody, nobody) != 0))
    return false;
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

bool workload_hide_proc(void) {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    return false;
  mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
  /* Not every sandbox allows unmounting. An empty file system that is mounted over /proc hides it as well. */
  return umount2("/proc", MNT_DETACH) == 0 || mount("none", "/proc", "tmpfs", 0, NULL) == 0;
}

static atomic_int profiled;

static void on_profile(int signal, siginfo_t *information, void *context) {
  (void)signal;
  (void)context;
  /* Sent by an interval timer of the process (setitimer(2)). */
  if (information->si_code == SI_KERNEL)
    profiled++;
}

void workload_start_profiler(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_profile;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, NULL);
  struct itimerval every = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_PROF, &every, NULL);
}

int workload_profiled(void) { return profiled; }

int workload_fork_and_leave(void) {
  if (fork() != 0)
    return 0;
  for (int descriptor = 0; descriptor <= 2; descriptor++)
    close(descriptor);
  sleep(5);
  _exit(0);
}

int workload_start(const char *way, const char *path, char *const arguments[]) {
  pid_t pid = -1;
  if (strcmp(way, "spawn") == 0)
    return posix_spawn(&pid, path, NULL, NULL, arguments, environ) == 0 ? pid : -1;
  pid = strcmp(way, "vfork") == 0 ? vfork() : fork();
  if (pid == 0) {
    execv(path, arguments);
    _exit(127);
  }
  return pid;
}

struct call {
  int (*body)(void);
  int result;
};

static void *call(void *argument) {
  struct call *own = argument;
  own->result = own->body();
  return NULL;
}

int workload_call_on_thread(int (*body)(void)) {
  struct call own = {.body = body};
  pthread_t thread;
  if (pthread_create(&thread, NULL, call, &own) != 0)
    abort();
  pthread_join(thread, NULL);
  return own.result;
}

int workload_fork(int (*child)(void)) {
  pid_t pid = fork();
  if (pid == 0)
    _exit(child());
  int status = -1;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
    continue;
  return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int workload_plain_fork(void) { return fork(); }

int workload_become_daemon(void) { return daemon(1, 1); }

/* Limits RESOURCE to BYTES more than the process uses. FORMAT reads the used pages from statm (proc(5)). */
static bool leave(int resource, const char *format, size_t bytes) {
  FILE *file = fopen("/proc/self/statm", "re");
  unsigned long pages = 0;
  int count = file ? fscanf(file, format, &pages) : 0;
  if (file)
    fclose(file);
  rlim_t most = pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
  return count == 1 && setrlimit(resource, &(struct rlimit){.rlim_cur = most, .rlim_max = most}) == 0;
}

bool workload_leave_memory(size_t bytes) { return leave(RLIMIT_DATA, "%*u %*u %*u %*u %*u %lu", bytes); }

bool workload_leave_address_space(size_t bytes) { return leave(RLIMIT_AS, "%lu", bytes); }
