#define _GNU_SOURCE
#include "observer_descriptor.h"

#include "clinux_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What poll(2) waits for, where it is one descriptor. */
static int32_t polled(const uint64_t arguments[6]) {
  struct pollfd one;
  return arguments[1] == 1 && clinux_memory_read(arguments[0], &one, sizeof one) ? one.fd : -1;
}

int32_t observer_descriptor_number(int64_t call, const uint64_t arguments[6]) {
  switch (call) {
#ifdef SYS_poll
  case SYS_poll:
#endif
  case SYS_ppoll:
    return polled(arguments);
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

/* Writes the name of descriptor NUMBER in /proc into NAME, which has room for it. */
static void write_name(char *name, int32_t number) {
  char digits[12];
  int count = 0;
  for (uint32_t left = (uint32_t)number; count == 0 || left > 0; left /= 10)
    digits[count++] = (char)('0' + left % 10);
  while (count > 0)
    *name++ = digits[--count];
  *name = '\0';
}

static void read_target(int32_t number, struct observer_descriptor *descriptor) {
  /* The main thread may have exited: its directory is empty then. */
  char name[40] = "/proc/thread-self/fd/", target[1024];
  write_name(name + strlen(name), number);
  long bytes = syscall(SYS_readlinkat, AT_FDCWD, name, target, sizeof target);
  if (bytes <= 0)
    return;
  size_t kept = (size_t)bytes < sizeof descriptor->target ? (size_t)bytes : sizeof descriptor->target;
  descriptor->is_cut = (size_t)bytes > kept || bytes == sizeof target;
  /* The end of a path tells more than its beginning. */
  memcpy(descriptor->target, target + bytes - kept, kept);
  descriptor->target_bytes = (uint32_t)kept;
}

void observer_descriptor_read(int32_t number, struct observer_descriptor *descriptor) {
  int saved_errno = errno;
  memset(descriptor, 0, sizeof *descriptor);
  descriptor->number = number;
  if (number >= 0)
    read_target(number, descriptor);
  errno = saved_errno;
}
