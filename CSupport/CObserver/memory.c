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
