#define _GNU_SOURCE
#include "evidence/observer_descriptor.h"

#include "clinux_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns the descriptor if poll(2) waits for only one, otherwise -1. */
static int32_t polled(const uint64_t arguments[6]) {
  struct pollfd one;
  return arguments[1] == 1 && clinux_memory_read(arguments[0], &one, sizeof one) ? one.fd : -1;
}

/* Returns the descriptor if select(2)'s three sets contain only one, otherwise -1. */
static int32_t selected(const uint64_t arguments[6]) {
  uint64_t all[FD_SETSIZE / 64] = {0}, set[FD_SETSIZE / 64];
  uint64_t count = arguments[0] < FD_SETSIZE ? arguments[0] : FD_SETSIZE, words = (count + 63) / 64;
  for (int which = 1; which <= 3; which++) {
    if (arguments[which] == 0 || words == 0)
      continue;
    if (!clinux_memory_read(arguments[which], set, words * sizeof set[0]))
      return -1;
    for (uint64_t word = 0; word < words; word++)
      all[word] |= set[word];
  }
  int32_t found = -1;
  for (uint64_t number = 0; number < count; number++) {
    if ((all[number / 64] >> number % 64 & 1) == 0)
      continue;
    if (found >= 0)
      return -1;
    found = (int32_t)number;
  }
  return found;
}

int32_t observer_descriptor_number(int64_t call, const uint64_t arguments[6]) {
  switch (call) {
#ifdef SYS_poll
  case SYS_poll:
#endif
  case SYS_ppoll:
    return polled(arguments);
#ifdef SYS_select
  case SYS_select:
#endif
  case SYS_pselect6:
    return selected(arguments);
#ifdef SYS_epoll_wait
  case SYS_epoll_wait:
#endif
#ifdef SYS_accept
  case SYS_accept:
#endif
#ifdef SYS_sendfile
  case SYS_sendfile:
#endif
#ifdef SYS_getdents
  case SYS_getdents:
#endif
  case SYS_epoll_pwait:
  case SYS_accept4:
  case SYS_connect:
  case SYS_read:
  case SYS_readv:
  case SYS_pread64:
  case SYS_preadv:
  case SYS_preadv2:
  case SYS_write:
  case SYS_writev:
  case SYS_pwrite64:
  case SYS_pwritev:
  case SYS_pwritev2:
  case SYS_recvfrom:
  case SYS_recvmsg:
  case SYS_recvmmsg:
  case SYS_sendto:
  case SYS_sendmsg:
  case SYS_sendmmsg:
  case SYS_fsync:
  case SYS_fdatasync:
  case SYS_sync_file_range:
  case SYS_syncfs:
  case SYS_ftruncate:
  case SYS_fallocate:
  case SYS_fcntl:
  case SYS_flock:
  case SYS_ioctl:
  case SYS_fstat:
  case SYS_getdents64:
  case SYS_copy_file_range:
  case SYS_splice:
    return (int32_t)arguments[0];
  default:
    return -1;
  }
}

static void write_number(char *name, int32_t number) {
  char digits[12];
  int count = 0;
  for (uint32_t left = (uint32_t)number; count == 0 || left > 0; left /= 10)
    digits[count++] = (char)('0' + left % 10);
  while (count > 0)
    *name++ = digits[--count];
  *name = '\0';
}

static int path_argument(int64_t call) {
  switch (call) {
#ifdef SYS_open
  case SYS_open:
  case SYS_stat:
  case SYS_lstat:
  case SYS_access:
  case SYS_rename:
  case SYS_mkdir:
  case SYS_rmdir:
  case SYS_creat:
  case SYS_link:
  case SYS_unlink:
  case SYS_symlink:
  case SYS_readlink:
  case SYS_chmod:
  case SYS_chown:
#endif
  case SYS_truncate:
  case SYS_statfs:
  case SYS_execve:
  case SYS_getxattr:
  case SYS_setxattr:
    return 0;
#ifdef SYS_newfstatat
  case SYS_newfstatat:
#endif
#ifdef SYS_renameat
  case SYS_renameat:
#endif
  case SYS_openat:
  case SYS_openat2:
  case SYS_statx:
  case SYS_faccessat:
  case SYS_faccessat2:
  case SYS_renameat2:
  case SYS_unlinkat:
  case SYS_mkdirat:
  case SYS_readlinkat:
  case SYS_fchmodat:
  case SYS_fchownat:
  case SYS_linkat:
  case SYS_utimensat:
    return 1;
  default:
    return -1;
  }
}

static void keep_end(const char *text, size_t length, bool is_cut, struct observer_descriptor *descriptor) {
  size_t kept = length < sizeof descriptor->target ? length : sizeof descriptor->target;
  descriptor->is_cut = is_cut || length > kept;
  /* Keeps the end of a long path, which is more informative. */
  memcpy(descriptor->target, text + length - kept, kept);
  descriptor->target_bytes = (uint32_t)kept;
}

void observer_path_read(int64_t call, const uint64_t arguments[6], struct observer_descriptor *descriptor) {
  int place = path_argument(call);
  char path[512];
  size_t bytes = place < 0 ? 0 : clinux_memory_read_some(arguments[place], path, sizeof path);
  size_t length = strnlen(path, bytes);
  if (length > 0)
    keep_end(path, length, length == bytes, descriptor);
}

static void read_target(int32_t tid, int32_t number, struct observer_descriptor *descriptor) {
  /* Reads thread TID's table: tables can differ, and an exited main thread's table is empty. */
  char name[48] = "/proc/self/task/", target[1024];
  write_number(name + strlen(name), tid);
  strcpy(name + strlen(name), "/fd/");
  write_number(name + strlen(name), number);
  long bytes = syscall(SYS_readlinkat, AT_FDCWD, name, target, sizeof target);
  if (bytes <= 0)
    return;
  keep_end(target, (size_t)bytes, bytes == sizeof target, descriptor);
}

void observer_descriptor_read(int32_t tid, int32_t number, struct observer_descriptor *descriptor) {
  int saved_errno = errno;
  memset(descriptor, 0, sizeof *descriptor);
  descriptor->number = number;
  if (number >= 0)
    read_target(tid, number, descriptor);
  errno = saved_errno;
}
