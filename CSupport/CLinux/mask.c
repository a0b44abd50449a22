#define _GNU_SOURCE
#include "clinux_mask.h"

#include "clinux_clock.h"
#include "clinux_task.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

static inline uint64_t bit(int signal) { return UINT64_C(1) << (signal - 1); }

/* Reserved by nptl. */
enum { SIGNAL_CANCEL = 32, SIGNAL_SET_ID = 33 };

static uint64_t change(int how, const uint64_t *mask) {
  uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, how, mask, &before, sizeof before);
  return before;
}

uint64_t clinux_mask_get(void) { return change(SIG_BLOCK, NULL); }

uint64_t clinux_mask_set(uint64_t mask) {
  mask &= ~(bit(SIGNAL_CANCEL) | bit(SIGNAL_SET_ID));
  return change(SIG_SETMASK, &mask);
}

/* LABEL begins a line; at least ROOM bytes must follow it. */
static const char *find_line(const char *text, size_t bytes, const char *label, size_t room) {
  size_t length = strlen(label);
  for (size_t at = 0; at + length + room <= bytes; at++)
    if (memcmp(text + at, label, length) == 0)
      return text + at + length;
  return NULL;
}

/* "SigBlk:\t0000000000000000" */
static bool find_mask(const char *text, size_t bytes, uint64_t *mask) {
  const char *digits = find_line(text, bytes, "\nSigBlk:\t", 16);
  if (!digits)
    return false;
  *mask = 0;
  for (int place = 0; place < 16; place++)
    *mask = *mask * 16 + (uint64_t)(digits[place] <= '9' ? digits[place] - '0' : digits[place] - 'a' + 10);
  return true;
}

bool clinux_mask_of_thread(int32_t tid, uint64_t *mask) {
  char text[4096];
  return find_mask(text, clinux_task_read_status(tid, text, sizeof text), mask);
}

enum clinux_mask_answer clinux_mask_ask(int32_t tid, int signal, uint64_t *sleeps) {
  char text[4096];
  uint64_t mask;
  size_t bytes = clinux_task_read_status(tid, text, sizeof text);
  *sleeps = 0;
  const char *count = find_line(text, bytes, "\nvoluntary_ctxt_switches:\t", 1);
  for (; count && count < text + bytes && *count >= '0' && *count <= '9'; count++)
    *sleeps = *sleeps * 10 + (uint64_t)(*count - '0');
  if (!find_mask(text, bytes, &mask))
    return CLINUX_MASK_LETS_IN;
  if ((mask & bit(signal)) != 0 && (mask & bit(SIGNAL_CANCEL)) == 0)
    return CLINUX_MASK_KEEPS_OUT;
  const char *state = find_line(text, bytes, "\nState:\t", 1);
  return !state || *state == 'R' ? CLINUX_MASK_LETS_IN : CLINUX_MASK_MAY_WAIT;
}

/* Newer than the C libraries of some systems. The numbers are those of all architectures. */
#ifndef SYS_io_uring_enter
#define SYS_io_uring_enter 426
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* Whether the system call CALL can replace its thread's signal mask while it sleeps. */
static bool sets_mask(long call) {
  switch (call) {
  case SYS_rt_sigtimedwait:
  case SYS_rt_sigsuspend:
  case SYS_ppoll:
  case SYS_pselect6:
  case SYS_epoll_pwait:
  case SYS_epoll_pwait2:
  case SYS_io_pgetevents:
  case SYS_io_uring_enter:
    return true;
  default:
    return false;
  }
}

bool clinux_mask_lets_in_asleep(int32_t tid, int signal) {
  uint64_t used = clinux_clock_thread_cpu_ns(tid), sleeps;
  char text[256];
  struct clinux_descriptor file = clinux_task_open_file(tid, "/syscall");
  long bytes = file.number < 0 ? -1 : syscall(SYS_pread64, file.number, text, sizeof text, 0L);
  clinux_descriptor_close(&file);
  /* The text is "CALL …" in a system call, "-1 …" outside, or "running". */
  bool is_outside = bytes > 2 && text[0] == '-';
  if (!is_outside && (bytes < 1 || text[0] < '0' || text[0] > '9'))
    return false;
  long call = 0;
  for (long at = 0; at < bytes && text[at] >= '0' && text[at] <= '9'; at++)
    call = call * 10 + (text[at] - '0');
  if (!is_outside && sets_mask(call))
    return false;
  /* Unchanged CPU time proves that the thread was still in CALL when its mask was read. */
  return clinux_mask_ask(tid, signal, &sleeps) != CLINUX_MASK_KEEPS_OUT && clinux_clock_thread_cpu_ns(tid) == used;
}

uint64_t clinux_mask_of_main(void) {
  static _Atomic uint64_t known;
  /* IDs in /proc might belong to another PID namespace. */
  int32_t main_thread = (int32_t)syscall(SYS_getpid);
  for (int attempt = 0; attempt < 5; attempt++) {
    uint64_t mask;
    if (!clinux_mask_of_thread(main_thread, &mask))
      break;
    if ((mask & bit(SIGNAL_CANCEL)) == 0) {
      atomic_store_explicit(&known, mask, memory_order_relaxed);
      return mask;
    }
    struct timespec moment = {.tv_nsec = 1000000};
    nanosleep(&moment, NULL);
  }
  return atomic_load_explicit(&known, memory_order_relaxed);
}

uint64_t clinux_mask_of_own_threads(void) {
  return ~(bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV) | bit(SIGSYS) | bit(SIGPROF));
}

void clinux_mask_prepare(pthread_attr_t *attributes) {
  sigset_t mask;
  sigemptyset(&mask);
  /* A program that receives SIGPROF with sigwait(3) or signalfd(2) blocks it in all threads. The new thread must not
   * take that signal. */
  uint64_t own = clinux_mask_of_own_threads() | ((clinux_mask_get() | clinux_mask_of_main()) & bit(SIGPROF));
  for (int signal = 1; signal <= 64; signal++)
    if ((own & bit(signal)) != 0)
      sigaddset(&mask, signal);
  pthread_attr_setsigmask_np(attributes, &mask);
}

ssize_t clinux_write(int descriptor, const void *bytes, size_t count) {
  const uint64_t quiet = bit(SIGPIPE) | bit(SIGXFSZ) | bit(SIGTTOU);
  uint64_t before = change(SIG_BLOCK, &quiet);
  uint64_t pending = 0;
  syscall(SYS_rt_sigpending, &pending, sizeof pending);
  ssize_t written = write(descriptor, bytes, count);
  int error = errno;
  /* A failed write raises the signal in the calling thread. A signal that was already pending belongs to other code. */
  uint64_t sent = written >= 0 ? 0 : error == EPIPE ? bit(SIGPIPE) : error == EFBIG ? bit(SIGXFSZ) : 0;
  sent &= ~pending;
  struct timespec at_once = {0, 0};
  while (sent != 0 && syscall(SYS_rt_sigtimedwait, &sent, NULL, &at_once, sizeof sent) < 0 && errno == EINTR)
    continue;
  change(SIG_SETMASK, &before);
  errno = error;
  return written;
}
