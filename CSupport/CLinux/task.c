#define _GNU_SOURCE
#include "clinux_task.h"

#include "clinux_clock.h"
#include "clinux_test_clock.h"

#include "clinux_context.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

/* See getdents64(2). */
struct entry {
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[];
};

enum { LIST_BYTES = 32 << 10, PAGE = 4096 };

static struct room {
  int32_t *task_ids;
  uint8_t *list;
} rooms[CLINUX_CONTEXTS_MAX];

static struct room *here(void) { return &rooms[clinux_context]; }

int clinux_task_start(void) {
  if (here()->task_ids)
    return 0;
  size_t id_bytes = sizeof(int32_t) * CLINUX_TASK_LIST_MAX;
  uint8_t *memory =
      mmap(NULL, id_bytes + LIST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == (uint8_t *)MAP_FAILED)
    return errno;
  here()->list = memory + id_bytes;
  here()->task_ids = (int32_t *)(void *)memory;
  /* Touches the memory now, because the first access takes the address space's lock. */
  here()->task_ids[0] = 0;
  return 0;
}

static int32_t number_of(const char *name) {
  int32_t number = 0;
  for (; *name >= '0' && *name <= '9'; name++)
    number = number * 10 + (*name - '0');
  return *name == '\0' ? number : 0;
}

int64_t clinux_task_list(const int32_t **tids) {
  int saved_errno = errno;
  int64_t count = 0;
  /* The kernel waits for the lock of the address space if a page that it writes to is not present. */
  for (int at = 0; at < LIST_BYTES; at += PAGE)
    *(volatile uint8_t *)(here()->list + at) = 0;
  struct clinux_descriptor list = clinux_descriptor_keep(
      (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  long bytes = list.number < 0 ? -1 : 0;
  /* The number might refer to a directory of the service by now. */
  while (clinux_descriptor_is_ours(&list) &&
         (bytes = syscall(SYS_getdents64, list.number, here()->list, (unsigned)LIST_BYTES)) > 0) {
    for (long at = 0; at < bytes;) {
      const struct entry *entry = (const struct entry *)(const void *)(here()->list + at);
      int32_t tid = number_of(entry->name);
      if (tid > 0 && count < CLINUX_TASK_LIST_MAX)
        here()->task_ids[count++] = tid;
      at += entry->length;
    }
  }
  if (bytes < 0)
    count = -errno;
  clinux_descriptor_close(&list);
  errno = saved_errno;
  *tids = here()->task_ids;
  return count;
}

struct clinux_descriptor clinux_task_open_file(int32_t tid, const char *name) {
  int saved_errno = errno;
  /* snprintf is not async-signal-safe. */
  char path[sizeof "/proc/self/task/" + 10 + CLINUX_TASK_FILE_BYTES] = "/proc/self/task/";
  char digits[10];
  size_t count = 0, length = sizeof "/proc/self/task/" - 1;
  for (uint32_t rest = (uint32_t)tid; rest > 0; rest /= 10)
    digits[count++] = (char)('0' + rest % 10);
  while (count > 0)
    path[length++] = digits[--count];
  strncpy(path + length, name, CLINUX_TASK_FILE_BYTES - 1);
  int number = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  int error = number < 0 ? errno : EBADF;
  struct clinux_descriptor descriptor = clinux_descriptor_keep(number);
  if (descriptor.number < 0)
    descriptor.number = -error;
  errno = saved_errno;
  return descriptor;
}

size_t clinux_task_read_status(int32_t tid, char *text, size_t size) {
  int saved_errno = errno;
  struct clinux_descriptor descriptor = clinux_task_open_file(tid, "/status");
  size_t length = 0;
  int64_t offset = 0;
  long count = descriptor.number < 0 ? -1 : 1;
  while (count > 0) {
    /* Drops a part of TEXT that belongs to the list of groups: the state precedes the list, and less than half a buffer
     * follows it. */
    if (length == size) {
      memmove(text + size / 8, text + size / 2, size - size / 2);
      length = size / 8 + size - size / 2;
    }
    /* The number might refer to a pipe or socket of the service by now, on which pread fails. */
    count = syscall(SYS_pread64, descriptor.number, text + length, size - length, offset);
    length += count > 0 ? (size_t)count : 0;
    offset += count > 0 ? count : 0;
  }
  clinux_descriptor_close(&descriptor);
  errno = saved_errno;
  return length;
}

bool clinux_task_is_asleep(int32_t tid) {
  int saved_errno = errno;
  char text[128];
  struct clinux_descriptor descriptor = clinux_task_open_file(tid, "/stat");
  long count = descriptor.number < 0 ? 0 : syscall(SYS_pread64, descriptor.number, text, sizeof text, 0L);
  clinux_descriptor_close(&descriptor);
  errno = saved_errno;
  /* "123 (name) S 1 …": a name has up to 15 bytes, possibly parentheses. */
  long at = count < 40 ? count - 1 : 39;
  while (at > 0 && text[at] != ')')
    at--;
  return at > 0 && at + 2 < count && text[at + 2] != 'R';
}

int32_t clinux_task_self(void) { return (int32_t)syscall(SYS_gettid); }

bool clinux_task_join(pthread_t thread, uint64_t deadline_ns) {
  if (deadline_ns == UINT64_MAX)
    return pthread_join(thread, NULL) == 0;
  /* The C library waits by the kernel's clock, which can differ from the test clock. */
  uint64_t now_ns = clinux_clock_ns();
  uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  struct timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  uint64_t nanoseconds = (uint64_t)deadline.tv_nsec + left_ns % 1000000000;
  deadline.tv_sec += (time_t)(left_ns / 1000000000 + nanoseconds / 1000000000);
  deadline.tv_nsec = (long)(nanoseconds % 1000000000);
  return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &deadline) == 0;
}

void clinux_task_set_name(const char *name) {
  char kept[16] = {0};
  strncpy(kept, name, sizeof kept - 1);
  pthread_setname_np(pthread_self(), kept);
}

struct clinux_descriptor clinux_task_open_schedule(void) {
  int saved_errno = errno;
  struct clinux_descriptor schedule = clinux_descriptor_keep(
      (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC, 0));
  errno = saved_errno;
  return schedule;
}

/* Returns the second number of schedstat and sets *TURNS to the third. Returns UINT64_MAX if the file cannot be read,
 * time is simulated, or the third number is 0, which means that the kernel does not count. */
static uint64_t read_run_delay(int descriptor, uint64_t *turns) {
  const struct clinux_test_clock *test = clinux_test_clock_installed();
  bool counts = descriptor >= 0 && !(test && test->is_simulated());
  char text[64];
  long count = !counts ? 0 : syscall(SYS_pread64, descriptor, text, sizeof text, 0L);
  uint64_t numbers[3] = {0};
  int number = 0;
  for (long at = 0; at < count && number < 3; at++)
    if (text[at] >= '0' && text[at] <= '9')
      numbers[number] = numbers[number] * 10 + (uint64_t)(text[at] - '0');
    else
      number++;
  *turns = numbers[2];
  return numbers[2] > 0 ? numbers[1] : UINT64_MAX;
}

uint64_t clinux_task_starved_ns(struct clinux_descriptor *schedule) {
  int saved_errno = errno;
  /* The service might have closed the file. The file opened instead stays open: close(2) could close a file of the
   * service that has got the number meanwhile. */
  if (!clinux_descriptor_is_ours(schedule))
    clinux_descriptor_replace(schedule, clinux_task_open_schedule());
  uint64_t turns, waited = read_run_delay(schedule->number, &turns);
  errno = saved_errno;
  return waited == UINT64_MAX ? 0 : waited;
}

uint64_t clinux_task_run_delay_ns(int32_t tid, uint64_t *turns) {
  int saved_errno = errno;
  struct clinux_descriptor descriptor = clinux_task_open_file(tid, "/schedstat");
  uint64_t waited = read_run_delay(descriptor.number, turns);
  clinux_descriptor_close(&descriptor);
  errno = saved_errno;
  return waited;
}
