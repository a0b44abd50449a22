#define _GNU_SOURCE
#include "observer_memory.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

bool observer_memory_read(uint64_t address, void *destination, size_t length) {
  int saved_errno = errno;
  struct iovec local = {destination, length};
  struct iovec remote = {(void *)(uintptr_t)address, length};
  long got = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL);
  errno = saved_errno;
  return got >= 0 && (size_t)got == length;
}

size_t observer_memory_read_some(uint64_t address, void *destination, size_t length) {
  /* A page a piece: process_vm_readv transfers whole pieces only. Few at a time: this runs on a signal handler's stack. */
  enum { PAGE = 4096, BATCH = 8 };
  int saved_errno = errno;
  pid_t pid = (pid_t)syscall(SYS_getpid);
  size_t copied = 0;
  while (copied < length) {
    struct iovec local[BATCH], remote[BATCH];
    size_t asked = 0;
    int count = 0;
    for (; count < BATCH && copied + asked < length; count++) {
      uint64_t from = address + copied + asked;
      size_t left = length - copied - asked;
      size_t to_page_end = PAGE - (size_t)(from % PAGE);
      size_t piece = left < to_page_end ? left : to_page_end;
      remote[count] = (struct iovec){(void *)(uintptr_t)from, piece};
      local[count] = (struct iovec){(uint8_t *)destination + copied + asked, piece};
      asked += piece;
    }
    long got = syscall(SYS_process_vm_readv, pid, local, (unsigned long)count, remote, (unsigned long)count, 0UL);
    if (got > 0)
      copied += (size_t)got;
    if (got < 0 || (size_t)got < asked)
      break;
  }
  errno = saved_errno;
  return copied;
}
