#define _GNU_SOURCE
#include "base/observer_residency.h"

#include "clinux_residency.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Calls functions once: the loader resolves a function at its first call, with tables that might be paged out later. */
static void bind_calls(void) {
  int saved_errno = errno;
  struct timespec none = {0};
  struct sigaction action;
  sigset_t mask;
  struct rusage used;
  char byte = 0;
  nanosleep(&none, NULL);
  clock_gettime(CLOCK_MONOTONIC, &none);
  poll(NULL, 0, 0);
  sched_yield();
  kill(getpid(), 0);
  sigaction(SIGABRT, NULL, &action);
  sigprocmask(SIG_BLOCK, NULL, &mask);
  getrusage(RUSAGE_SELF, &used);
  if (write(-1, &byte, 1) < 0 && read(-1, &byte, 1) < 0 && pread(-1, &byte, 1, 0) < 0 &&
      sendto(-1, &byte, 1, MSG_DONTWAIT, NULL, 0) < 0)
    close(-1);
  errno = saved_errno;
}

/* The linker's bounds of CLINUX_RESIDENT_CODE. Weak: link-time optimization can inline all functions of the section. */
extern const char __start_culprit_resident[] __attribute__((weak, visibility("hidden")));
extern const char __stop_culprit_resident[] __attribute__((weak, visibility("hidden")));

bool observer_keep_own_code_resident(void) {
#define OF_SYSTEM(function) ((uint64_t)(uintptr_t)(function))
  const uint64_t of_system[] = {
      OF_SYSTEM(clock_gettime), OF_SYSTEM(close),   OF_SYSTEM(getpid),      OF_SYSTEM(getrusage), OF_SYSTEM(kill),
      OF_SYSTEM(memcpy),        OF_SYSTEM(memset),  OF_SYSTEM(nanosleep),   OF_SYSTEM(open),      OF_SYSTEM(poll),
      OF_SYSTEM(pread),         OF_SYSTEM(read),    OF_SYSTEM(sched_yield), OF_SYSTEM(sendto),    OF_SYSTEM(sigaction),
      OF_SYSTEM(sigprocmask),   OF_SYSTEM(syscall), OF_SYSTEM(write),
  };
#undef OF_SYSTEM
  bool is_kept = clinux_keep_code_resident((uint64_t)(uintptr_t)__start_culprit_resident,
                                           (uint64_t)(uintptr_t)__stop_culprit_resident);
  for (size_t index = 0; index < sizeof of_system / sizeof of_system[0]; index++)
    is_kept &= clinux_keep_code_resident(of_system[index], of_system[index] + 1);
  bind_calls();
  return is_kept;
}
