#define _GNU_SOURCE
#include "clinux_process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

/* The address of the stamp, in a page that the kernel zeroes in a child (MADV_WIPEONFORK, Linux 4.14), even if fork
 * handlers do not run. */
static _Atomic uint32_t *_Atomic place;
static _Atomic uint32_t ordinary;
static _Atomic uint32_t last;

static void forget_parent(void) { atomic_store_explicit(&ordinary, 0, memory_order_relaxed); }

static _Atomic uint32_t *make_place(void) {
  int saved_errno = errno;
  size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool is_wiped = page != MAP_FAILED && madvise(page, bytes, MADV_WIPEONFORK) == 0;
  _Atomic uint32_t *made = is_wiped ? page : &ordinary, *none = NULL;
  if (!atomic_compare_exchange_strong_explicit(&place, &none, made, memory_order_acq_rel, memory_order_acquire)) {
    is_wiped = false;
    made = none;
  } else if (made == &ordinary) {
    pthread_atfork(NULL, NULL, forget_parent);
  }
  if (!is_wiped && page != MAP_FAILED)
    munmap(page, bytes);
  errno = saved_errno;
  return made;
}

uint32_t clinux_process_stamp(void) {
  _Atomic uint32_t *at = atomic_load_explicit(&place, memory_order_acquire);
  if (__builtin_expect(!at, 0))
    at = make_place();
  uint32_t stamp = atomic_load_explicit(at, memory_order_relaxed);
  if (__builtin_expect(stamp != 0, 1))
    return stamp;
  uint32_t next = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
  if (next == 0)
    next = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
  return atomic_compare_exchange_strong_explicit(at, &stamp, next, memory_order_relaxed, memory_order_relaxed) ? next
                                                                                                               : stamp;
}

static uint64_t left_of(int limit, uint64_t used) {
  struct rlimit present;
  if (getrlimit(limit, &present) != 0 || present.rlim_cur == RLIM_INFINITY)
    return UINT64_MAX;
  return present.rlim_cur > used ? present.rlim_cur - used : 0;
}

uint64_t clinux_process_memory_left(void) {
  /* /proc/self/statm is empty after the main thread has exited. The file holds numbers of pages (proc(5)): the first
   * is the total size, the sixth data and stack. */
  enum { ALL = 0, DATA = 5, NUMBERS = 7 };
  uint64_t pages[NUMBERS] = {0};
  char text[256];
  int saved_errno = errno;
  int descriptor = open("/proc/thread-self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t bytes = descriptor < 0 ? -1 : read(descriptor, text, sizeof text);
  if (descriptor >= 0)
    close(descriptor);
  errno = saved_errno;
  int number = 0;
  for (ssize_t place = 0; place < bytes && number < NUMBERS; place++)
    if (text[place] >= '0' && text[place] <= '9')
      pages[number] = pages[number] * 10 + (uint64_t)(text[place] - '0');
    else
      number++;
  if (pages[ALL] == 0)
    return UINT64_MAX;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t data = left_of(RLIMIT_DATA, pages[DATA] * page), all = left_of(RLIMIT_AS, pages[ALL] * page);
  return data < all ? data : all;
}

static bool device_of(const char *path, uint64_t *device) {
  struct statx about;
  if (syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_INO, &about) != 0)
    return false;
  *device = (uint64_t)about.stx_dev_major << 32 | about.stx_dev_minor;
  return true;
}

bool clinux_process_is_kernels(const char *path) {
  if (path[0] == '\0')
    return false;
  int saved_errno = errno;
  uint64_t own = 0, device = 0;
  bool is_own = device_of(path[1] == 's' ? "/sys/kernel" : "/proc/self", &own);
  /* Checks each directory from the root down: a lookup in another file system could wait for that file system's
   * server. */
  char part[128];
  size_t at = 0;
  while (is_own && path[at] != '\0' && at < sizeof part - 1) {
    do {
      part[at] = path[at];
      at++;
    } while (path[at] != '\0' && path[at] != '/' && at < sizeof part - 1);
    part[at] = '\0';
    is_own = device_of(part, &device) && device == own;
  }
  errno = saved_errno;
  return is_own && path[at] == '\0';
}

static uint32_t cpus_allowed(void) {
  unsigned long set[1024 / sizeof(long)];
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);
  uint32_t count = 0;
  for (size_t at = 0; bytes > 0 && at < (size_t)bytes / sizeof *set; at++)
    count += (uint32_t)__builtin_popcountl(set[at]);
  return count;
}

uint32_t clinux_process_cpus(void) {
  static _Atomic uint32_t known;
  uint32_t count = atomic_load_explicit(&known, memory_order_relaxed);
  if (count == 0) {
    /* The C library reads the number from this file. */
    bool asks_kernel = clinux_process_is_kernels("/sys/devices/system/cpu/online");
    long found = asks_kernel ? sysconf(_SC_NPROCESSORS_ONLN) : (long)cpus_allowed();
    count = found > 0 ? (uint32_t)found : 1;
    atomic_store_explicit(&known, count, memory_order_relaxed);
  }
  return count;
}
