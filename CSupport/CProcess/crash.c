#define _GNU_SOURCE
#include "cprocess_crash.h"

#include "clinux_clock.h"
#include "clinux_wait.h"
#include "cprocess_pending.h"
#include "crash_notes.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT, SIGTERM};
enum { FATAL_SIGNALS = sizeof fatal_signals / sizeof fatal_signals[0] };

/* SEGV_MTEAERR, an asynchronous fault of aarch64's memory tagging; not in all C libraries' headers. */
enum { LATE_TAG_FAULT = 8 };

static _Atomic int note_process;
static _Atomic unsigned note_number;
/* Longest delay of a crash: one slow disk write. */
static const uint64_t patience_ns = UINT64_C(1000000000);

/* Longest wait of SIGTERM for standard error. */
static const uint64_t lines_patience_ns = UINT64_C(100000000);

static _Atomic uint32_t notice;
enum notice { NOTICE_NONE = 0, NOTICE_BEGUN = 1, NOTICE_PUT = 2 };
static _Atomic uint64_t notice_deadline_ns;

static struct sigaction former[FATAL_SIGNALS];
static bool installed[FATAL_SIGNALS];
static bool is_underneath[FATAL_SIGNALS];
/* Whether the former handler has returned and the process continued. */
static _Atomic bool recovers[FATAL_SIGNALS];

/* BEGIN ASYNC-SIGNAL-SAFE SECTION. Uses no locks, allocation, stdio, loader or language runtime: interrupted code might
 * hold any lock. */

static size_t put_number(char *text, uint64_t number) {
  char digits[20];
  size_t count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  for (size_t index = 0; index < count; index++)
    text[index] = digits[count - 1 - index];
  return count;
}

static unsigned add_checksum(unsigned checksum, const char *text, size_t length) {
  checksum = ~checksum;
  for (size_t index = 0; index < length; index++) {
    checksum ^= (unsigned char)text[index];
    for (int bit = 0; bit < 8; bit++)
      checksum = checksum >> 1 ^ (checksum & 1 ? 0xedb88320u : 0);
  }
  return ~checksum;
}

static void put_digits(char *text, unsigned number) {
  for (int shift = 28; shift >= 0; shift -= 4)
    *text++ = "0123456789abcdef"[number >> shift & 15];
}

/* Adds the checksum and a newline to LINE, which has room for them. Returns the new length. */
static size_t end_line(char *line, size_t length) {
  char digits[8];
  put_digits(digits, atomic_load(&note_number));
  unsigned checksum = add_checksum(add_checksum(0, digits, sizeof digits), line, length);
  line[length++] = ' ';
  line[length++] = '#';
  put_digits(line + length, checksum);
  length += 8;
  line[length++] = '\n';
  return length;
}

static void put_line(char *line, size_t length) { crash_notes_put(line, end_line(line, length)); }

void cprocess_crash_write_line(char *line, size_t length) { crash_notes_write_now(line, end_line(line, length)); }

void cprocess_crash_wake(void) { crash_notes_wake(); }

static void put_time(const char *word) {
  char line[CRASH_NOTE_LENGTH_MAX];
  size_t length = strlen(word);
  memcpy(line, word, length);
  length += put_number(line + length, clinux_clock_wall_ns());
  put_line(line, length);
}

/* Whether the signal was sent by a process, or reports an error later than the instruction that caused it. */
static bool is_asynchronous(int number, const siginfo_t *info) {
  return info->si_code <= 0 || number == SIGTERM || (number == SIGBUS && info->si_code == BUS_MCEERR_AO) ||
         (number == SIGSEGV && info->si_code == LATE_TAG_FAULT);
}

#if defined(__aarch64__)
enum { BREAKPOINTS_COME_AGAIN = 1 };
#else
enum { BREAKPOINTS_COME_AGAIN = 0 };
#endif

/* Whether the instruction, and therefore the signal, is repeated after the handler returns. A forbidden system call is
 * not repeated. */
static bool comes_again(int number, const siginfo_t *info) {
  if (number == SIGTRAP)
    return BREAKPOINTS_COME_AGAIN && info->si_code == TRAP_BRKPT;
  return !is_asynchronous(number, info) &&
         (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE);
}

/* Records the signal, and waits up to one second for the write. Returns false in a child of fork or vfork, which
 * inherits the handler, and if another signal has been recorded. */
static bool note(int number, const siginfo_t *info, int process) {
  if (process != atomic_load(&note_process))
    return false;
  uint64_t deadline_ns = clinux_clock_ns() + patience_ns;
  for (;;) {
    uint32_t before = NOTICE_NONE;
    if (atomic_compare_exchange_strong(&notice, &before, NOTICE_BEGUN))
      break;
    /* Another thread has died first; its record must be written before the process ends. */
    if (before == NOTICE_BEGUN) {
      clinux_wait(&notice, NOTICE_BEGUN, deadline_ns);
    } else {
      uint64_t others_ns = atomic_load(&notice_deadline_ns);
      crash_notes_wait(others_ns < deadline_ns ? others_ns : deadline_ns);
      if (atomic_load(&notice) == NOTICE_PUT)
        return false;
    }
    if (clinux_clock_ns() >= deadline_ns)
      return false;
  }
  if (number == SIGTERM) {
    put_time("terminated ");
  } else {
    char line[CRASH_NOTE_LENGTH_MAX] = "signal ";
    size_t length = 7;
    length += put_number(line + length, (unsigned)number);
    line[length++] = ' ';
    length += put_number(line + length, info->si_code <= 0 && info->si_pid > 0 ? (unsigned)info->si_pid : 0);
    put_line(line, length);
  }
  atomic_store(&notice_deadline_ns, deadline_ns);
  atomic_store(&notice, NOTICE_PUT);
  clinux_wake(&notice);
  crash_notes_wait(deadline_ns);
  return true;
}

static void take_back(int number) {
  char line[CRASH_NOTE_LENGTH_MAX] = "survived ";
  size_t length = 9;
  length += put_number(line + length, (unsigned)number);
  put_line(line, length);
  uint64_t deadline_ns = atomic_load(&notice_deadline_ns);
  atomic_store(&notice, NOTICE_NONE);
  crash_notes_wait(deadline_ns);
}

static bool has_handler(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) != 0 || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* Whether the process ends as soon as this handler returns. */
static bool is_end(int number, const siginfo_t *info, int process) {
  /* abort(3) sends the signal to the calling thread. If the handler returns, it sends the signal again, with the
   * default action. */
  if (number == SIGABRT && info->si_code == SI_TKILL && info->si_pid == process)
    return true;
  struct sigaction now;
  if (sigaction(number, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
    return false;
  uint64_t pending = 0;
  syscall(SYS_rt_sigpending, &pending, sizeof pending);
  return comes_again(number, info) || (pending >> (number - 1) & 1) != 0;
}

/* Calls the former handler, whose flags and mask this handler has. */
static void pass_on(int index, int number, siginfo_t *info, void *context, int process) {
  bool has_recovered = atomic_load(&recovers[index]);
  bool is_ours = !has_recovered && note(number, info, process);
  if (former[index].sa_flags & SA_SIGINFO)
    former[index].sa_sigaction(number, info, context);
  else
    former[index].sa_handler(number);
  if (is_end(number, info, process)) {
    if (has_recovered)
      note(number, info, process);
    return;
  }
  atomic_store(&recovers[index], true);
  if (is_ours)
    take_back(number);
}

static void repeat(int number, void *context) {
  ucontext_t *interrupted = context;
#if defined(__x86_64__)
  if (number == SIGTRAP)
    __asm__ volatile("int3"); /* SIGTRAP is blocked here, so the kernel ends the process at once */
  else
    interrupted->uc_mcontext.gregs[REG_RIP] -= 2; /* the length of `syscall` and `int $0x80` */
#elif defined(__aarch64__)
  if (number == SIGTRAP)
    __asm__ volatile("brk #0");
  else
    interrupted->uc_mcontext.pc -= 4;
#else
  (void)number;
  (void)interrupted;
#endif
}

static void die(int index, int number, siginfo_t *info, void *context, int process) {
  /* The kernel withholds signals without a handler from process 1. */
  if (process == 1 && is_asynchronous(number, info))
    return;
  /* Prints the pending reports, because they will not be delivered any more. */
  if (number == SIGTERM && process == atomic_load(&note_process))
    cprocess_pending_print(clinux_clock_ns() + lines_patience_ns);
  note(number, info, process);
  sigaction(number, &former[index], NULL);
  if (comes_again(number, info))
    return;
  if (process == 1) {
    repeat(number, context);
    return;
  }
  /* The signal stays pending until the handler returns. */
  int thread = (int)syscall(SYS_gettid);
  if (syscall(SYS_rt_tgsigqueueinfo, process, thread, number, info) != 0)
    syscall(SYS_tgkill, process, thread, number);
}

static void on_fatal(int number, siginfo_t *info, void *context) {
  int saved_errno = errno;
  int process = (int)syscall(SYS_getpid);
  for (int index = 0; index < FATAL_SIGNALS; index++) {
    if (fatal_signals[index] != number)
      continue;
    if (has_handler(&former[index]))
      pass_on(index, number, info, context, process);
    else
      die(index, number, info, context, process);
  }
  errno = saved_errno;
}

void cprocess_crash_note_end(uint64_t deadline_ns) {
  if (syscall(SYS_getpid) != atomic_load(&note_process))
    return;
  put_time("ended ");
  crash_notes_wait(deadline_ns);
}

bool cprocess_crash_is_handler(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == on_fatal;
}

/* END ASYNC-SIGNAL-SAFE SECTION */

uint32_t cprocess_crash_start(struct clinux_descriptor file, unsigned number, bool notes_signals) {
  uint32_t run = crash_notes_start(file);
  atomic_store(&note_process, (int)getpid());
  atomic_store(&note_number, number);
  atomic_store(&notice, NOTICE_NONE);
  for (int index = 0; index < FATAL_SIGNALS && notes_signals; index++) {
    struct sigaction now;
    if (installed[index] || sigaction(fatal_signals[index], NULL, &now) != 0)
      continue;
    if ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_IGN)
      continue;
    /* SIGTERM is left to the service's handler. In process 1, SIGTERM has no default effect, and our handler would only
     * interrupt system calls. */
    if (fatal_signals[index] == SIGTERM && !cprocess_crash_is_handler(&now) && (has_handler(&now) || getpid() == 1))
      continue;
    /* Other code might have restored our handler. */
    if (cprocess_crash_is_handler(&now)) {
      installed[index] = true;
      is_underneath[index] = false;
      continue;
    }
    /* The current handler might call our handler. Installing our handler again in front of it would cause endless
     * recursion. */
    if (has_handler(&now) && is_underneath[index])
      continue;
    is_underneath[index] = false;
    former[index] = now;
    atomic_store(&recovers[index], false);
    struct sigaction action = now;
    if (!has_handler(&now)) {
      memset(&action, 0, sizeof action);
      action.sa_flags = SA_ONSTACK | SA_RESTART;
      sigemptyset(&action.sa_mask);
    }
    action.sa_sigaction = on_fatal;
    action.sa_flags |= SA_SIGINFO;
    installed[index] = sigaction(fatal_signals[index], &action, NULL) == 0;
  }
  return run;
}

void cprocess_crash_write_notes(uint32_t run, uint64_t (*more)(void)) { crash_notes_write(run, more); }

void cprocess_crash_stop(void) {
  crash_notes_stop();
  for (int index = 0; index < FATAL_SIGNALS; index++) {
    struct sigaction now;
    if (!installed[index] || sigaction(fatal_signals[index], NULL, &now) != 0)
      continue;
    installed[index] = false;
    if (cprocess_crash_is_handler(&now))
      sigaction(fatal_signals[index], &former[index], NULL);
    else
      is_underneath[index] = true;
  }
}

void cprocess_crash_move(struct clinux_descriptor file) { crash_notes_move(file); }
