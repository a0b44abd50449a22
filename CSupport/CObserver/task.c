#define _GNU_SOURCE
#include "observer_task.h"

#include "observer_clock.h"
#include "observer_context.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

enum { LIST_BYTES = 32 << 10, PAGE = 4096 };

/* For each context. */
static struct room {
  int32_t *task_ids;
  uint8_t *list;
} rooms[OBSERVER_CONTEXTS_MAX];

/* Of all contexts. */
static struct observer_thread visitors[OBSERVER_VISITS_MAX];

static struct room *here(void) { return &rooms[observer_context]; }

int observer_task_start(void) {
  if (here()->task_ids)
    return 0;
  size_t id_bytes = sizeof(int32_t) * OBSERVER_TASKS_MAX;
  uint8_t *memory =
      mmap(NULL, id_bytes + LIST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == (uint8_t *)MAP_FAILED)
    return errno;
  here()->list = memory + id_bytes;
  here()->task_ids = (int32_t *)(void *)memory;
  /* The first page of a mapping takes the lock of the address space when it is touched, the others do not. */
  here()->task_ids[0] = 0;
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
  /* A page that is not there makes the kernel wait for the lock of the address space when it writes to it; the thread
   * itself does not. */
  for (int at = 0; at < LIST_BYTES; at += PAGE)
    *(volatile uint8_t *)(here()->list + at) = 0;
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
  for (int index = 0; index < OBSERVER_VISITS_MAX; index++) {
    struct observer_thread *visitor = &visitors[index];
    uint32_t state = OBSERVER_THREAD_FREE;
    if (!atomic_compare_exchange_strong_explicit(&visitor->state, &state, OBSERVER_THREAD_HELD, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    /* An entry of its own also where the thread is registered: that one may be another thread's before the visit is
     * over. */
    const struct observer_thread *registered = observer_thread_find(tid);
    uint64_t low = registered ? atomic_load_explicit(&registered->stack_low, memory_order_relaxed) : 0;
    uint64_t high = registered ? atomic_load_explicit(&registered->stack_high, memory_order_relaxed) : 0;
    if (registered && observer_thread_id(registered) != tid)
      low = high = 0;
    atomic_store_explicit(&visitor->tid, tid, memory_order_relaxed);
    atomic_store_explicit(&visitor->kept_out_until_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&visitor->let_in_ns, 0, memory_order_relaxed);
    uint32_t lacks_room = registered ? atomic_load_explicit(&registered->lacks_room, memory_order_relaxed) : 0;
    atomic_store_explicit(&visitor->lacks_room, lacks_room, memory_order_relaxed);
    atomic_store_explicit(&visitor->stack_low, low, memory_order_relaxed);
    atomic_store_explicit(&visitor->stack_high, high, memory_order_relaxed);
    atomic_store_explicit(&visitor->registered_ns, observer_clock_boot_ns(), memory_order_relaxed);
    atomic_store_explicit(&visitor->self_address, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&visitor->use, 1, memory_order_relaxed);
    atomic_store_explicit(&visitor->state, OBSERVER_THREAD_LIVE, memory_order_release);
    return visitor;
  }
  return NULL;
}

void observer_task_leave(struct observer_thread *thread) {
  /* Who holds it has not finished: the entry is free when he lets go. */
  if (thread >= visitors && thread < visitors + OBSERVER_VISITS_MAX)
    atomic_fetch_and_explicit(&thread->state, ~(uint32_t)OBSERVER_THREAD_LIVE, memory_order_acq_rel);
}

bool observer_task_is_asleep(int32_t tid) {
  int saved_errno = errno;
  char text[128];
  int descriptor = observer_thread_open_file(tid, "/stat");
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

static int open_schedule(void) {
  return (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC, 0);
}

struct observer_descriptor observer_task_open_schedule(void) {
  int saved_errno = errno;
  struct observer_descriptor schedule = observer_descriptor_keep(open_schedule());
  errno = saved_errno;
  return schedule;
}

void observer_task_close_schedule(struct observer_descriptor schedule) { observer_descriptor_close(&schedule); }

/* The second of the three numbers in the schedstat file of DESCRIPTOR; UINT64_MAX when it cannot be read, or the kernel
 * does not count: a thread that has run has had a slice, the third number. */
static uint64_t read_run_delay(int descriptor) {
  char text[64];
  long count = descriptor < 0 ? 0 : syscall(SYS_pread64, descriptor, text, sizeof text, 0L);
  uint64_t numbers[3] = {0};
  int number = 0;
  for (long at = 0; at < count && number < 3; at++)
    if (text[at] >= '0' && text[at] <= '9')
      numbers[number] = numbers[number] * 10 + (uint64_t)(text[at] - '0');
    else
      number++;
  return numbers[2] > 0 ? numbers[1] : UINT64_MAX;
}

uint64_t observer_task_starved_ns(struct observer_descriptor schedule) {
  int saved_errno = errno;
  bool is_ours = observer_descriptor_is_ours(&schedule);
  /* Where the service has closed it, it is opened each time. */
  int descriptor = is_ours ? schedule.number : open_schedule();
  uint64_t waited = read_run_delay(descriptor);
  if (!is_ours && descriptor >= 0)
    syscall(SYS_close, descriptor);
  errno = saved_errno;
  return waited == UINT64_MAX ? 0 : waited;
}

uint64_t observer_task_run_delay_ns(int32_t tid) {
  int saved_errno = errno;
  int descriptor = observer_thread_open_file(tid, "/schedstat");
  uint64_t waited = read_run_delay(descriptor);
  if (descriptor >= 0)
    syscall(SYS_close, descriptor);
  errno = saved_errno;
  return waited;
}
