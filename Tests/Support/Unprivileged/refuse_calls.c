/* Runs a command under a seccomp filter that refuses the same system calls as Docker's default profile for a container
 * without capabilities.
 *
 *   $ refuse-calls COMMAND [ARGUMENT]...
 *
 * The filter needs no privileges: it sets no_new_privs first. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "unknown architecture"
#endif

#define NAMESPACES                                                                                                     \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* The list is stricter than that of Docker, which refuses ptrace(2), process_vm_readv(2) and process_vm_writev(2) only
 * before Linux 4.8. */
static const unsigned refused[] = {
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_get_mempolicy,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_kcmp,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_mbind,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_move_pages,
    SYS_name_to_handle_at,
    SYS_nfsservctl,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_madvise,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_set_mempolicy,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_unshare,
    SYS_userfaultfd,
    SYS_vhangup,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_quotactl_fd
    SYS_quotactl_fd,
#endif
#ifdef __x86_64__
    SYS_ioperm,
    SYS_iopl,
    SYS_lookup_dcookie,
    SYS_sysfs,
    SYS_uselib,
    SYS_ustat,
#endif
};

enum { COUNT = sizeof refused / sizeof *refused, LENGTH = 2 * COUNT + 16 };

static struct sock_filter program[LENGTH];
static unsigned short length;

static void add(unsigned short code, unsigned char if_true, unsigned char if_false, unsigned value) {
  program[length++] = (struct sock_filter){code, if_true, if_false, value};
}

static void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offset); }

static void end(unsigned action) { add(BPF_RET | BPF_K, 0, 0, action); }

static void refuse_if(unsigned short comparison, unsigned value, unsigned error) {
  add((unsigned short)(BPF_JMP | BPF_K | comparison), 0, 1, value);
  end(SECCOMP_RET_ERRNO | error);
}

int main(int count, char **arguments) {
  if (count < 2) {
    fprintf(stderr, "usage: %s COMMAND [ARGUMENT]...\n", arguments[0]);
    return 2;
  }
  load(offsetof(struct seccomp_data, arch));
  add(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCHITECTURE);
  end(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(struct seccomp_data, nr));
  for (size_t call = 0; call < COUNT; call++)
    refuse_if(BPF_JEQ, refused[call], EPERM);
  /* The flags of clone3(2) lie in memory, where no filter can read them. The C library falls back to clone(2). */
  refuse_if(BPF_JEQ, SYS_clone3, ENOSYS);
  add(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_clone);
  load(offsetof(struct seccomp_data, args[0]));
  refuse_if(BPF_JSET, NAMESPACES, EPERM);
  end(SECCOMP_RET_ALLOW);

  struct sock_fprog filter = {length, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
    fprintf(stderr, "%s: cannot install the seccomp filter: %s\n", arguments[0], strerror(errno));
    return 125;
  }
  execvp(arguments[1], arguments + 1);
  fprintf(stderr, "%s: cannot run %s: %s\n", arguments[0], arguments[1], strerror(errno));
  return 126;
}
