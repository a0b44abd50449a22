#define _GNU_SOURCE
#include "stuck_disk.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool stuck;

void stuck_disk_begin(void) { atomic_store(&stuck, true); }

int stuck_disk_own_thread(void) { return (int)syscall(SYS_gettid); }

int fsync(int descriptor) {
  while (atomic_load(&stuck))
    pause();
  return (int)syscall(SYS_fsync, descriptor);
}
