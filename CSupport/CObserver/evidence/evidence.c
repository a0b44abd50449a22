#define _GNU_SOURCE
#include "evidence/observer_evidence.h"

#include "clinux_clock.h"
#include "clinux_descriptor.h"
#include "clinux_memory.h"
#include "clinux_process.h"
#include "clinux_task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 256, PAUSE_NS = 250000000 };

static _Atomic bool is_known;
static struct {
  char cpu_stats[OBSERVER_GROUPS_MAX][PATH_BYTES];
  char memory_pressure[PATH_BYTES], io_pressure[PATH_BYTES], memory_stat[PATH_BYTES], memory_limit[PATH_BYTES];
  uint32_t cpus;
  uint64_t page_bytes;
} known;

static void keep(char *path, const char *from) {
  size_t length = from ? strlen(from) : 0;
  memset(path, 0, PATH_BYTES);
  if (length < PATH_BYTES)
    memcpy(path, from ? from : "", length);
}

void observer_evidence_know(const char *const *cpu_stats, uint32_t groups, const char *memory_pressure,
                            const char *io_pressure, const char *memory_stat, const char *memory_limit, uint32_t cpus) {
  for (uint32_t group = 0; group < OBSERVER_GROUPS_MAX; group++)
    keep(known.cpu_stats[group], group < groups ? cpu_stats[group] : NULL);
  keep(known.memory_pressure, memory_pressure);
  keep(known.io_pressure, io_pressure);
  keep(known.memory_stat, memory_stat);
  keep(known.memory_limit, memory_limit);
  known.cpus = cpus;
  known.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
  atomic_store_explicit(&is_known, true, memory_order_release);
}

uint64_t observer_evidence_number(const char *text, size_t length, const char *key) {
  size_t key_length = strlen(key);
  for (size_t at = 0; at + key_length < length; at++) {
    bool is_word = at == 0 || text[at - 1] == '\n' || text[at - 1] == ' ';
    if (!is_word || memcmp(text + at, key, key_length) != 0)
      continue;
    size_t digit = at + key_length;
    while (digit < length && (text[digit] == ' ' || text[digit] == '\t'))
      digit++;
    uint64_t number = 0;
    size_t begin = digit;
    for (; digit < length && text[digit] >= '0' && text[digit] <= '9'; digit++)
      number = number * 10 + (uint64_t)(text[digit] - '0');
    /* A number at the end of the text might be truncated. */
    return digit > begin && digit < length ? number : UINT64_MAX;
  }
  return UINT64_MAX;
}

static size_t read_all(struct clinux_descriptor descriptor, char *text, size_t capacity) {
  if (descriptor.number < 0)
    return 0;
  long bytes = syscall(SYS_pread64, descriptor.number, text, capacity, 0L);
  clinux_descriptor_close(&descriptor);
  return bytes > 0 ? (size_t)bytes : 0;
}

static size_t read_task(int32_t tid, const char *name, char *text, size_t capacity) {
  return read_all(clinux_task_open_file(tid, name), text, capacity);
}

/* Skips files in /proc that the container replaces (lxcfs). */
static size_t read_path(const char *path, char *text, size_t capacity) {
  if (*path == '\0' || (strncmp(path, "/proc/", 6) == 0 && !clinux_process_is_kernels(path)))
    return 0;
  int number = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  return read_all(clinux_descriptor_keep(number), text, capacity);
}

/* Field numbers in /proc/…/stat (proc(5)), whose name field can contain any character. */
enum { MINOR_FAULTS = 10, MAJOR_FAULTS = 12, USER_TICKS = 14, SYSTEM_TICKS = 15 };

static bool read_stat(int32_t tid, struct observer_thread_counters *counters) {
  char text[512];
  size_t length = read_task(tid, "/stat", text, sizeof text), at = length;
  while (at > 0 && text[at - 1] != ')')
    at--;
  for (int place = 2; at < length && place < SYSTEM_TICKS;) {
    for (; at < length && text[at] == ' '; at++)
      ;
    uint64_t number = 0;
    for (; at < length && text[at] != ' '; at++)
      number = number * 10 + (uint64_t)(text[at] - '0');
    place++;
    if (place == MINOR_FAULTS)
      counters->minor_faults = number;
    else if (place == MAJOR_FAULTS)
      counters->major_faults = number;
    else if (place == USER_TICKS)
      counters->user_ticks = number;
    else if (place == SYSTEM_TICKS)
      counters->system_ticks = number;
  }
  return length > 0;
}

static uint64_t or_zero(uint64_t number) { return number == UINT64_MAX ? 0 : number; }

/* Returns false if a counter is missing, because an unknown counter must not appear as zero. */
static bool read_counters(int32_t tid, struct observer_thread_counters *counters) {
  char text[4096];
  size_t length = clinux_task_read_status(tid, text, sizeof text);
  counters->voluntary_switches = observer_evidence_number(text, length, "voluntary_ctxt_switches:");
  counters->involuntary_switches = observer_evidence_number(text, length, "nonvoluntary_ctxt_switches:");
  bool is_reported = read_stat(tid, counters);
  length = read_task(tid, "/io", text, sizeof text);
  counters->read_bytes = observer_evidence_number(text, length, "rchar:");
  counters->written_bytes = observer_evidence_number(text, length, "wchar:");
  counters->disk_read_bytes = observer_evidence_number(text, length, "read_bytes:");
  counters->disk_written_bytes = observer_evidence_number(text, length, "write_bytes:");
  return is_reported && counters->voluntary_switches != UINT64_MAX && counters->involuntary_switches != UINT64_MAX &&
         counters->disk_written_bytes != UINT64_MAX;
}

/* Version 2 of control groups counts in microseconds, version 1 in nanoseconds. */
static uint64_t throttled(const char *path) {
  char text[1024];
  size_t length = read_path(path, text, sizeof text);
  uint64_t micros = observer_evidence_number(text, length, "throttled_usec ");
  return micros != UINT64_MAX ? micros * 1000 : observer_evidence_number(text, length, "throttled_time ");
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=28577658", in microseconds (Documentation/accounting/psi.rst). */
static uint64_t stalled(const char *path) {
  char text[256];
  size_t length = read_path(path, text, sizeof text);
  uint64_t micros = observer_evidence_number(text, length, "total=");
  return micros == UINT64_MAX ? UINT64_MAX : micros * 1000;
}

static void read_memory(struct observer_surroundings *surroundings) {
  char text[4096];
  size_t length = read_path(known.memory_stat, text, sizeof text);
  uint64_t pages = observer_evidence_number(text, length, "workingset_refault_file ");
  surroundings->refaulted_bytes = pages > UINT64_MAX / known.page_bytes ? UINT64_MAX : pages * known.page_bytes;
  length = read_path(known.memory_limit, text, sizeof text);
  uint64_t most = observer_evidence_number(text, length, "max ");
  if (most == UINT64_MAX) /* the file of version 1 has only the number */
    surroundings->limit_hits = observer_evidence_number(text, length, "");
  else
    surroundings->limit_hits = most + or_zero(observer_evidence_number(text, length, "high "));
}

static void read_surroundings(struct observer_surroundings *surroundings) {
  memset(surroundings, 0, sizeof *surroundings);
  surroundings->throttled_ns = surroundings->memory_stalled_ns = surroundings->disk_stalled_ns = UINT64_MAX;
  surroundings->refaulted_bytes = surroundings->limit_hits = UINT64_MAX;
  if (!atomic_load_explicit(&is_known, memory_order_acquire))
    return;
  for (int group = 0; group < OBSERVER_GROUPS_MAX; group++) {
    uint64_t more = throttled(known.cpu_stats[group]);
    if (more == UINT64_MAX)
      continue;
    /* Adds the groups' times, because an outer group's time does not include its inner groups. */
    surroundings->throttled_ns = or_zero(surroundings->throttled_ns) + more;
  }
  surroundings->memory_stalled_ns = stalled(known.memory_pressure);
  surroundings->disk_stalled_ns = stalled(known.io_pressure);
  read_memory(surroundings);
  surroundings->cpus = known.cpus;
  /* "5.23 3.02 2.32 9/177 14641": the runnable threads and all threads. */
  char text[128];
  size_t length = read_path("/proc/loadavg", text, sizeof text), at = 0;
  while (at < length && text[at] != '/')
    at++;
  size_t begin = at;
  while (at < length && begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9')
    begin--;
  for (; begin < at; begin++)
    surroundings->runnable = surroundings->runnable * 10 + (uint32_t)(text[begin] - '0');
}

static bool is_plain(int64_t call) {
  switch (call) {
#ifdef SYS_poll
  case SYS_poll:
#endif
#ifdef SYS_select
  case SYS_select:
#endif
#ifdef SYS_epoll_wait
  case SYS_epoll_wait:
#endif
  case SYS_futex:
  case SYS_nanosleep:
  case SYS_clock_nanosleep:
  case SYS_ppoll:
  case SYS_pselect6:
  case SYS_epoll_pwait:
  case SYS_wait4:
  case SYS_waitid:
  case SYS_restart_syscall:
    return true;
  default:
    return false;
  }
}

static void read_kernel_function(int32_t tid, struct observer_evidence *evidence) {
  char text[128];
  size_t length = read_task(tid, "/wchan", text, sizeof text);
  /* The text "0" means: not permitted, or in no kernel function. */
  if (length <= 1)
    return;
  if (length > sizeof evidence->kernel_function)
    length = sizeof evidence->kernel_function;
  memcpy(evidence->kernel_function, text, length);
  evidence->kernel_function_bytes = (uint32_t)length;
}

static void read_words(const struct observer_thread_status *seen, struct observer_evidence *evidence) {
  uint64_t address = seen->arguments[0];
  uint32_t count = OBSERVER_WORDS_MAX;
  /* Stops at the page's end: the next page might be unmapped. */
  uint64_t left = (4096 - address % 4096) / sizeof(uint32_t);
  if (left < count)
    count = (uint32_t)left;
  if (address % sizeof(uint32_t) == 0 && clinux_memory_read(address, evidence->words, count * sizeof(uint32_t)))
    evidence->word_count = count;
}

static bool take_counters(int32_t tid, uint32_t slot, uint64_t now_ns, struct observer_evidence_times *times) {
  uint32_t place = ((uint32_t)tid ^ slot * 31) % OBSERVER_COUNTED_THREADS_MAX;
  if (times->tids[place] == tid && times->slots[place] == slot && now_ns < times->next_ns[place])
    return false;
  times->tids[place] = tid;
  times->slots[place] = slot;
  times->next_ns[place] = now_ns + PAUSE_NS;
  return true;
}

void observer_evidence_read(int32_t tid, uint32_t slot, const struct observer_thread_status *seen,
                            struct observer_evidence_times *times, struct observer_evidence *evidence) {
  int saved_errno = errno;
  uint64_t now_ns = clinux_clock_ns();
  if (seen->activity == OBSERVER_IN_CALL) {
    evidence->has_arguments = true;
    memcpy(evidence->arguments, seen->arguments, sizeof evidence->arguments);
    if (seen->call == SYS_futex)
      read_words(seen, evidence);
  }
  if (seen->activity == OBSERVER_BLOCKED || (seen->activity == OBSERVER_IN_CALL && !is_plain(seen->call)))
    read_kernel_function(tid, evidence);
  if (take_counters(tid, slot, now_ns, times)) {
    evidence->has_counters = read_counters(tid, &evidence->counters);
    if (now_ns >= times->next_surroundings_ns) {
      times->next_surroundings_ns = now_ns + PAUSE_NS;
      read_surroundings(&times->surroundings);
    }
    evidence->has_surroundings = true;
    evidence->surroundings = times->surroundings;
  }
  errno = saved_errno;
}
