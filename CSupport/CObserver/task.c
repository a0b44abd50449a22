#define _GNU_SOURCE
#include "observer_task.h"

#include "observer_context.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The raw call's entries: getdents64(2). */
struct entry {
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[];
};

enum { LIST_BYTES = 256 << 10 };

/* For each context. */
static struct room {
  int32_t *task_ids;
  uint8_t *list;
  struct observer_thread visitors[OBSERVER_VISITS_MAX];
} rooms[OBSERVER_CONTEXTS_MAX];

static struct room *here(void) { return &rooms[observer_context]; }

void observer_task_path(char *path, int32_t tid, const char *file) {
  /* Put together by hand: snprintf is not async-signal-safe. */
  char digits[10];
  size_t count = 0, length = sizeof "/proc/self/task/" - 1;
  memcpy(path, "/proc/self/task/", length);
  for (uint32_t rest = (uint32_t)tid; rest > 0; rest /= 10)
    digits[count++] = (char)('0' + rest % 10);
  while (count > 0)
    path[length++] = digits[--count];
  memcpy(path + length, file, strlen(file) + 1);
}

int observer_task_start(void) {
  if (here()->task_ids)
    return 0;
  size_t id_bytes = sizeof(int32_t) * OBSERVER_TASKS_MAX;
  uint8_t *memory = mmap(NULL, id_bytes + LIST_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == (uint8_t *)MAP_FAILED)
    return errno;
  here()->list = memory + id_bytes;
  here()->task_ids = (int32_t *)(void *)memory;
  return 0;
}

/* The number that NAME is, 0 if it is none: "." and "..". */
static int32_t number_of(const char *name) {
  int32_t number = 0;
  for (; *name >= '0' && *name <= '9'; name++)
    number = number * 10 + (*name - '0');
  return *name == '\0' ? number : 0;
}

int64_t observer_task_list(const int32_t **tids) {
  int saved_errno = errno;
  int64_t count = 0;
  int descriptor = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  long bytes = descriptor < 0 ? -1 : 0;
  while (descriptor >= 0 && (bytes = syscall(SYS_getdents64, descriptor, here()->list, (unsigned)LIST_BYTES)) > 0) {
    for (long at = 0; at < bytes;) {
      const struct entry *entry = (const struct entry *)(const void *)(here()->list + at);
      int32_t tid = number_of(entry->name);
      if (tid > 0 && count < OBSERVER_TASKS_MAX)
        here()->task_ids[count++] = tid;
      at += entry->length;
    }
  }
  if (bytes < 0)
    count = -errno;
  if (descriptor >= 0)
    syscall(SYS_close, descriptor);
  errno = saved_errno;
  *tids = here()->task_ids;
  return count;
}

struct observer_thread *observer_task_visit(int32_t tid) {
  struct observer_thread *registered = observer_thread_find(tid);
  if (registered)
    return registered;
  for (int index = 0; index < OBSERVER_VISITS_MAX; index++) {
    struct observer_thread *visitor = &here()->visitors[index];
    if (atomic_load_explicit(&visitor->state, memory_order_relaxed) != OBSERVER_THREAD_FREE)
      continue;
    atomic_store_explicit(&visitor->tid, tid, memory_order_relaxed);
    atomic_store_explicit(&visitor->kept_out_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&visitor->look_descriptor, observer_thread_open_look(tid), memory_order_relaxed);
    atomic_store_explicit(&visitor->state, OBSERVER_THREAD_LIVE, memory_order_relaxed);
    return visitor;
  }
  return NULL;
}

void observer_task_leave(struct observer_thread *thread) {
  if (thread < here()->visitors || thread >= here()->visitors + OBSERVER_VISITS_MAX)
    return;
  int descriptor = atomic_load_explicit(&thread->look_descriptor, memory_order_relaxed);
  if (descriptor >= 0)
    syscall(SYS_close, descriptor);
  atomic_store_explicit(&thread->state, OBSERVER_THREAD_FREE, memory_order_relaxed);
}

bool observer_task_is_asleep(int32_t tid) {
  int saved_errno = errno;
  char path[OBSERVER_TASK_PATH_BYTES], text[128];
  observer_task_path(path, tid, "/stat");
  int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  long count = descriptor < 0 ? 0 : syscall(SYS_pread64, descriptor, text, sizeof text, 0L);
  if (descriptor >= 0)
    syscall(SYS_close, descriptor);
  errno = saved_errno;
  /* "123 (name) S 1 …": a name can have parentheses of its own, and has 15 bytes at most. */
  long at = count < 40 ? count - 1 : 39;
  while (at > 0 && text[at] != ')')
    at--;
  return at > 0 && at + 2 < count && text[at + 2] != 'R';
}

int32_t observer_task_self(void) { return (int32_t)syscall(SYS_gettid); }

int observer_task_open_schedule(void) {
  int saved_errno = errno;
  int descriptor = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC, 0);
  if (descriptor < 0)
    descriptor = -errno;
  errno = saved_errno;
  return descriptor;
}

void observer_task_close_schedule(int descriptor) {
  int saved_errno = errno;
  if (descriptor >= 0)
    syscall(SYS_close, descriptor);
  errno = saved_errno;
}

uint64_t observer_task_starved_ns(int descriptor) {
  int saved_errno = errno;
  char text[64];
  long count = descriptor < 0 ? 0 : syscall(SYS_pread64, descriptor, text, sizeof text, 0L);
  errno = saved_errno;
  long at = 0;
  while (at < count && text[at] != ' ')
    at++;
  uint64_t waited = 0;
  for (at++; at < count && text[at] >= '0' && text[at] <= '9'; at++)
    waited = waited * 10 + (uint64_t)(text[at] - '0');
  return waited;
}
