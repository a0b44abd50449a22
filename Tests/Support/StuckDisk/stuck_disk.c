#define _GNU_SOURCE
#include "stuck_disk.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool stuck;
static atomic_bool errors_stuck;

void stuck_disk_begin(void) { atomic_store(&stuck, true); }

void stuck_disk_begin_with_errors(void) { atomic_store(&errors_stuck, true); }

int stuck_disk_own_thread(void) { return (int)syscall(SYS_gettid); }

int fsync(int descriptor) {
  while (atomic_load(&stuck))
    pause();
  return (int)syscall(SYS_fsync, descriptor);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  while (descriptor == STDERR_FILENO && atomic_load(&errors_stuck))
    pause();
  return syscall(SYS_write, descriptor, bytes, count);
}
