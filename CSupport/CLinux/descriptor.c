#define _GNU_SOURCE
#include "clinux_descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

/* Enough for several simultaneous stalls. A child of fork(2) closes only the descriptors in this table. */
enum { KEPT_MAX = 256 };

static struct {
  _Atomic int number; /* 0: free; CHANGING: being written; otherwise the descriptor's number plus one */
  _Atomic uint64_t device;
  _Atomic uint64_t inode;
  _Atomic uint64_t born_ns;
} kept[KEPT_MAX];

enum { CHANGING = -1 };

static _Thread_local uint32_t own_table __attribute__((tls_model("initial-exec"))) = 0;
static _Atomic uint32_t tables;

uint32_t clinux_descriptor_table(void) { return own_table; }

void clinux_descriptor_share_table(uint32_t table) { own_table = table; }

/* Identifies the file at PATH relative to DIRECTORY, or DIRECTORY itself if PATH is empty. Uses the kernel's cached
 * attributes: the number might now refer to a file of the service on an unresponsive file system. */
static bool identify_at(int directory, const char *path, struct clinux_descriptor *found) {
  int how = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | (*path ? 0 : AT_EMPTY_PATH);
  struct statx about;
  if (syscall(SYS_statx, directory, path, how, STATX_INO | STATX_BTIME, &about) == 0) {
    found->device = (uint64_t)about.stx_dev_major << 32 | about.stx_dev_minor;
    found->inode = about.stx_ino;
    found->born_ns = about.stx_mask & STATX_BTIME
                         ? (uint64_t)about.stx_btime.tv_sec * UINT64_C(1000000000) + about.stx_btime.tv_nsec
                         : 0;
    return true;
  }
  if (errno == EBADF || errno == ENOENT || errno == ENOTDIR)
    return false;
  /* Some sandboxes allow only the system call fstat(2). The C library's fstat uses another call. */
  struct stat old;
  if ((*path ? fstatat(directory, path, &old, AT_SYMLINK_NOFOLLOW) : syscall(SYS_fstat, directory, &old)) != 0)
    return false;
  found->device = (uint64_t)old.st_dev;
  found->inode = (uint64_t)old.st_ino;
  found->born_ns = 0;
  return true;
}

bool clinux_descriptor_identify(int number, struct clinux_descriptor *found) {
  found->number = number;
  return identify_at(number, "", found);
}

static bool is_equal(const struct clinux_descriptor *one, const struct clinux_descriptor *other) {
  bool is_born = one->born_ns == other->born_ns || one->born_ns == 0 || other->born_ns == 0;
  return one->device == other->device && one->inode == other->inode && is_born;
}

static struct clinux_descriptor kept_at(int index) {
  return (struct clinux_descriptor){
      .number = atomic_load_explicit(&kept[index].number, memory_order_acquire) - 1,
      .device = atomic_load_explicit(&kept[index].device, memory_order_relaxed),
      .inode = atomic_load_explicit(&kept[index].inode, memory_order_relaxed),
      .born_ns = atomic_load_explicit(&kept[index].born_ns, memory_order_relaxed),
  };
}

/* Runs in the child after fork(2), in its only thread. */
static void close_parents(void) {
  int saved_errno = errno;
  for (int index = 0; index < KEPT_MAX; index++) {
    struct clinux_descriptor descriptor = kept_at(index);
    if (clinux_descriptor_is_ours(&descriptor))
      syscall(SYS_close, descriptor.number);
    atomic_store_explicit(&kept[index].number, 0, memory_order_relaxed);
  }
  errno = saved_errno;
}

static void guard(void) { pthread_atfork(NULL, NULL, close_parents); }

void clinux_descriptor_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, guard);
}

static int lift(int number) {
  if (number < 0 || number > STDERR_FILENO)
    return number;
  int lifted = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  syscall(SYS_close, number);
  return lifted;
}

static void remember(const struct clinux_descriptor *descriptor) {
  for (int index = 0; index < KEPT_MAX; index++) {
    int none = 0;
    if (!atomic_compare_exchange_strong_explicit(&kept[index].number, &none, CHANGING, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    atomic_store_explicit(&kept[index].device, descriptor->device, memory_order_relaxed);
    atomic_store_explicit(&kept[index].inode, descriptor->inode, memory_order_relaxed);
    atomic_store_explicit(&kept[index].born_ns, descriptor->born_ns, memory_order_relaxed);
    atomic_store_explicit(&kept[index].number, descriptor->number + 1, memory_order_release);
    return;
  }
}

static struct clinux_descriptor private_descriptor(int number) {
  return (struct clinux_descriptor){.number = number, .table = own_table};
}

struct clinux_descriptor clinux_descriptor_keep(int number) {
  struct clinux_descriptor descriptor = CLINUX_NO_DESCRIPTOR;
  if (own_table != 0)
    return private_descriptor(number < 0 ? -1 : number);
  int saved_errno = errno;
  number = lift(number);
  if (number >= 0 && clinux_descriptor_identify(number, &descriptor))
    remember(&descriptor);
  errno = saved_errno;
  return descriptor;
}

struct clinux_descriptor clinux_descriptor_keep_file(int number, const char *path) {
  if (own_table != 0)
    return clinux_descriptor_keep(number);
  struct clinux_descriptor opened = CLINUX_NO_DESCRIPTOR, present = CLINUX_NO_DESCRIPTOR;
  if (number < 0 || !identify_at(AT_FDCWD, path, &present) || !clinux_descriptor_identify(number, &opened) ||
      !is_equal(&opened, &present)) {
    errno = EBADF;
    return CLINUX_NO_DESCRIPTOR;
  }
  int kept_number = lift(number);
  if (kept_number < 0)
    return CLINUX_NO_DESCRIPTOR;
  opened.number = kept_number;
  remember(&opened);
  return opened;
}

bool clinux_descriptor_take_own_table(void) {
#if defined(__SANITIZE_THREAD__)
  /* ThreadSanitizer takes equal numbers in different tables for one file. */
  return false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return false;
#endif
#endif
  /* Unshares and closes in one call: a copied table would keep the service's connections open. */
  if (syscall(SYS_close_range, 0, ~0U, 2U /* CLOSE_RANGE_UNSHARE */) != 0)
    return false;
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
    if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
      break;
  own_table = atomic_fetch_add_explicit(&tables, 1, memory_order_relaxed) + 1;
  return true;
}

bool clinux_descriptor_is_same(const struct clinux_descriptor *descriptor, int number) {
  int saved_errno = errno;
  struct clinux_descriptor now = CLINUX_NO_DESCRIPTOR;
  bool is_same =
      descriptor->inode != 0 && number >= 0 && clinux_descriptor_identify(number, &now) && is_equal(descriptor, &now);
  errno = saved_errno;
  return is_same;
}

bool clinux_descriptor_is_ours(const struct clinux_descriptor *descriptor) {
  if (descriptor->number < 0 || descriptor->table != own_table)
    return false;
  return descriptor->table != 0 || clinux_descriptor_is_same(descriptor, descriptor->number);
}

static void forget(const struct clinux_descriptor *descriptor) {
  for (int index = 0; index < KEPT_MAX && descriptor->number >= 0; index++) {
    struct clinux_descriptor found = kept_at(index);
    int number = found.number + 1;
    if (found.number == descriptor->number && is_equal(&found, descriptor) &&
        atomic_compare_exchange_strong_explicit(&kept[index].number, &number, 0, memory_order_relaxed,
                                                memory_order_relaxed))
      return;
  }
}

void clinux_descriptor_close(struct clinux_descriptor *descriptor) {
  int saved_errno = errno;
  if (descriptor->table == 0)
    forget(descriptor);
  if (clinux_descriptor_is_ours(descriptor))
    syscall(SYS_close, descriptor->number);
  *descriptor = CLINUX_NO_DESCRIPTOR;
  errno = saved_errno;
}

bool clinux_descriptor_set_aside(struct clinux_descriptor *descriptor) {
  struct clinux_descriptor former = CLINUX_NO_DESCRIPTOR;
  int saved_errno = errno;
  bool is_known = clinux_descriptor_is_ours(descriptor) && clinux_descriptor_identify(descriptor->number, &former);
  errno = saved_errno;
  if (!is_known)
    return false;
  clinux_descriptor_close(descriptor);
  former.number = -1;
  *descriptor = former;
  return true;
}

void clinux_descriptor_replace(struct clinux_descriptor *descriptor, struct clinux_descriptor opened) {
  if (descriptor->number != opened.number) {
    clinux_descriptor_close(descriptor);
  } else {
    /* The service has closed the old descriptor, and the new file got its number. */
    forget(descriptor);
  }
  *descriptor = opened;
}
