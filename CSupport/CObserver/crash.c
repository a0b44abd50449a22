#define _GNU_SOURCE
#include "observer_crash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
enum { FATAL_SIGNALS = sizeof fatal_signals / sizeof fatal_signals[0] };

/* Where the line goes: one of two, so that another can be prepared. The service may have closed it since. */
static struct observer_descriptor note_files[2];
/* Which of them, -1 when the line has been written or is not to be; taken by the one thread that writes it. */
static _Atomic int note_place = -1;
static _Atomic int note_process;
static _Atomic unsigned note_number;
/* What was there before, written before the handler is installed. */
static struct sigaction former[FATAL_SIGNALS];
static bool installed[FATAL_SIGNALS];

/* Writes NUMBER in decimal to TEXT. Returns how many characters that are, at most 10.
 * Async-signal-safe: yes. Threads: any. */
static size_t put_number(char *text, unsigned number) {
  char digits[10];
  size_t count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  for (size_t index = 0; index < count; index++) text[index] = digits[count - 1 - index];
  return count;
}

/* The CRC-32 (that of zlib) of what had the checksum CHECKSUM with the LENGTH characters of TEXT behind it.
 * Async-signal-safe: yes. Threads: any. */
static unsigned add_checksum(unsigned checksum, const char *text, size_t length) {
  checksum = ~checksum;
  for (size_t index = 0; index < length; index++) {
    checksum ^= (unsigned char)text[index];
    for (int bit = 0; bit < 8; bit++)
      checksum = checksum >> 1 ^ (checksum & 1 ? 0xedb88320u : 0);
  }
  return ~checksum;
}

/* Writes NUMBER in eight hexadecimal digits to TEXT.
 * Async-signal-safe: yes. Threads: any. */
static void put_digits(char *text, unsigned number) {
  for (int shift = 28; shift >= 0; shift -= 4) *text++ = "0123456789abcdef"[number >> shift & 15];
}

/* The handler. Async-signal-safe: yes. Threads: that which the signal is for. */
static void note_and_die(int number, siginfo_t *info, void *context) {
  (void)context;
  int saved = errno;
  bool is_sent = info->si_code <= 0;
  int process = (int)syscall(SYS_getpid);
  /* A child of fork or vfork has the handler, and perhaps the descriptor, but no business with the file. */
  if (process == atomic_load(&note_process)) {
    int place = atomic_exchange(&note_place, -1);
    if (place >= 0 && observer_descriptor_is_ours(&note_files[place])) {
      char line[48] = "signal ";
      size_t length = 7;
      length += put_number(line + length, (unsigned)number);
      line[length++] = ' ';
      length += put_number(line + length, is_sent && info->si_pid > 0 ? (unsigned)info->si_pid : 0);
      char digits[8];
      put_digits(digits, atomic_load(&note_number));
      unsigned checksum = add_checksum(add_checksum(0, digits, sizeof digits), line, length);
      line[length++] = ' ';
      line[length++] = '#';
      put_digits(line + length, checksum);
      length += 8;
      line[length++] = '\n';
      /* There is nobody left to tell of a failure. */
      ssize_t written = write(note_files[place].number, line, length);
      (void)written;
    }
  }
  for (int index = 0; index < FATAL_SIGNALS; index++)
    if (fatal_signals[index] == number)
      sigaction(number, &former[index], NULL);
  /* A fault comes again when the handler returns; what was sent does not. It stays blocked until then. */
  if (is_sent && syscall(SYS_rt_tgsigqueueinfo, process, (int)syscall(SYS_gettid), number, info) != 0)
    syscall(SYS_tgkill, process, (int)syscall(SYS_gettid), number);
  errno = saved;
}

void observer_crash_start(struct observer_descriptor file, unsigned number) {
  atomic_store(&note_process, (int)getpid());
  atomic_store(&note_number, number);
  note_files[0] = file;
  atomic_store(&note_place, 0);
  for (int index = 0; index < FATAL_SIGNALS; index++) {
    struct sigaction action;
    if (installed[index] || sigaction(fatal_signals[index], NULL, &former[index]) != 0) continue;
    if ((former[index].sa_flags & SA_SIGINFO) == 0 && former[index].sa_handler == SIG_IGN) continue;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = note_and_die;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    installed[index] = sigaction(fatal_signals[index], &action, NULL) == 0;
  }
}

void observer_crash_stop(void) {
  atomic_store(&note_place, -1);
  for (int index = 0; index < FATAL_SIGNALS; index++) {
    struct sigaction action;
    if (!installed[index] || sigaction(fatal_signals[index], NULL, &action) != 0) continue;
    installed[index] = false;
    if ((action.sa_flags & SA_SIGINFO) == 0 || action.sa_sigaction != note_and_die) continue;
    sigaction(fatal_signals[index], &former[index], NULL);
  }
}

void observer_crash_move(struct observer_descriptor file) {
  int place = atomic_load(&note_place);
  if (place < 0)
    return;
  note_files[1 - place] = file;
  /* Unless the note has just been written. */
  atomic_compare_exchange_strong(&note_place, &place, 1 - place);
}
