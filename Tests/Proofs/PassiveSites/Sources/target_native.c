#define _GNU_SOURCE
#include "target.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static bool has_ended;

static void fail(const char *what) {
  perror(what);
  exit(2);
}

static bool read_memory(uint64_t address, void *destination, size_t length) {
  struct iovec to = {destination, length}, from = {(void *)(uintptr_t)address, length};
  return process_vm_readv(child, &to, 1, &from, 1, 0) == (ssize_t)length;
}

/* Waits until the thread stops. Returns the result of `step` (target.h). */
static int wait_for_stop(void) {
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
    has_ended = true;
    return -1;
  }
  return WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
}

static int step(int signal) {
  if (ptrace(PTRACE_SINGLESTEP, child, NULL, (void *)(long)signal) != 0) {
    has_ended = true;
    return -1;
  }
  return wait_for_stop();
}

static bool registers(struct unwind_registers *registers) {
#if defined(__x86_64__)
  struct user_regs_struct from;
  if (has_ended || ptrace(PTRACE_GETREGS, child, NULL, &from) != 0)
    return false;
  const uint64_t values[] = {from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi, from.rbp, from.rsp, from.r8,
                             from.r9,  from.r10, from.r11, from.r12, from.r13, from.r14, from.r15, from.rip};
  for (int number = 0; number < 17; number++)
    registers->values[number] = values[number];
  registers->known = (1 << 17) - 1;
  return true;
#else
  struct user_regs_struct from;
  struct iovec room = {&from, sizeof from};
  if (has_ended || ptrace(PTRACE_GETREGSET, child, (void *)NT_PRSTATUS, &room) != 0)
    return false;
  for (int number = 0; number < 31; number++)
    registers->values[number] = from.regs[number];
  registers->values[31] = from.sp;
  registers->values[32] = from.pc;
  registers->known = (UINT64_C(1) << 33) - 1;
  return true;
#endif
}

static void end(void) {
  kill(-child, SIGKILL);
  waitpid(child, NULL, 0);
}

static const struct target target = {.registers = registers, .read = read_memory, .step = step, .end = end};

const struct target *target_native(char **command) {
  static struct target native;
  native = target;
  native.architecture = cunwind_host();
  child = fork();
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    personality(ADDR_NO_RANDOMIZE);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    execve(command[0], command, (char *[]){"LD_BIND_NOW=1", NULL});
    _exit(127);
  }
  if (child < 0 || wait_for_stop() != 0)
    fail(command[0]);
  /* Runs the loader at full speed. */
  uint64_t pair[2], entry = 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/auxv", child);
  FILE *file = fopen(path, "r");
  while (file && fread(pair, sizeof pair, 1, file) == 1)
    if (pair[0] == AT_ENTRY)
      entry = pair[1];
  if (file)
    fclose(file);
#if defined(__x86_64__)
  errno = 0;
  long code = ptrace(PTRACE_PEEKTEXT, child, (void *)entry, NULL);
  if (entry == 0 || errno != 0 ||
      ptrace(PTRACE_POKETEXT, child, (void *)entry, (void *)((code & ~0xffL) | 0xcc)) != 0 ||
      ptrace(PTRACE_CONT, child, NULL, NULL) != 0 || wait_for_stop() != 0)
    fail(command[0]);
  struct user_regs_struct at;
  ptrace(PTRACE_GETREGS, child, NULL, &at);
  at.rip = entry;
  ptrace(PTRACE_SETREGS, child, NULL, &at);
  ptrace(PTRACE_POKETEXT, child, (void *)entry, (void *)code);
#else
  struct unwind_registers now;
  while (registers(&now) && now.values[32] != entry)
    step(0);
#endif
  return &native;
}
