#define _GNU_SOURCE
#include "observer_residency.h"

#include "deep_room.h"
#include "observer_abort.h"
#include "observer_capture.h"
#include "observer_cpu.h"
#include "observer_datagram.h"
#include "observer_progress.h"
#include "observer_ring.h"
#include "observer_sampling.h"
#include "observer_sigterm.h"
#include "observer_task.h"
#include "observer_warden.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static uint64_t page_of(uint64_t address) { return address & ~(uint64_t)(PAGE - 1); }

/* How much has been locked. */
static _Atomic uint64_t locked;

/* Whether BYTES more may be locked. The limit is the service's, which may lock memory of its own: a quarter is enough.
 */
static bool may_lock(uint64_t bytes) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
    return false;
  uint64_t before = atomic_fetch_add_explicit(&locked, bytes, memory_order_relaxed);
  if (limit.rlim_cur == RLIM_INFINITY || before + bytes <= limit.rlim_cur / 4)
    return true;
  atomic_fetch_sub_explicit(&locked, bytes, memory_order_relaxed);
  return false;
}

static void unlocked(uint64_t bytes) { atomic_fetch_sub_explicit(&locked, bytes, memory_order_relaxed); }

bool observer_keep_resident(const void *start, size_t bytes) {
  int saved_errno = errno;
  uint64_t first = page_of((uint64_t)(uintptr_t)start);
  uint64_t last = page_of((uint64_t)(uintptr_t)start + bytes + PAGE - 1);
  bool may = may_lock(last - first);
  bool is_kept = may && syscall(SYS_mlock2, first, last - first, MLOCK_ONFAULT) == 0;
  if (may && !is_kept)
    unlocked(last - first);
  errno = saved_errno;
  return is_kept;
}

/* Finds the executable memory around ADDRESS: lines of /proc/thread-self/maps (proc(5)) that follow each other, because
 * locking splits a mapping where a part of it is kept already. */
static bool find_code(uint64_t address, uint64_t *start, uint64_t *end) {
  FILE *maps = fopen("/proc/thread-self/maps", "re");
  char line[512];
  *start = *end = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    unsigned long first, last;
    char access[5];
    if (sscanf(line, "%lx-%lx %4s", &first, &last, access) != 3)
      continue; /* the rest of a long line */
    bool is_next = access[2] == 'x' && first == *end;
    if (!is_next && address < *end)
      break;
    if (!is_next)
      *start = first;
    *end = access[2] == 'x' ? last : *start;
  }
  if (maps)
    fclose(maps);
  return address >= *start && address < *end;
}

bool observer_keep_code_resident(uint64_t address, size_t bytes) {
  uint64_t start, end;
  if (!find_code(address, &start, &end))
    return false;
  uint64_t first = page_of(address - bytes), last = page_of(address + bytes + PAGE - 1);
  if (first < start)
    first = start;
  if (last > end)
    last = end;
  bool may = may_lock(last - first);
  if (may && mlock((const void *)(uintptr_t)first, last - first) == 0)
    return true;
  if (may)
    unlocked(last - first);
  madvise((void *)(uintptr_t)first, last - first, MADV_POPULATE_READ);
  return false;
}

bool observer_keep_own_code_resident(void) {
  static const struct {
    void (*function)(void);
    size_t bytes; /* on either side: how long the file's code is, about */
  } own[] = {
#define OWN(function, bytes) {(void (*)(void))(function), bytes}
      OWN(observer_abort_thread, 8 << 10),
      OWN(observer_capture_collect, 8 << 10),
      OWN(observer_capture_answered, 8 << 10),
      OWN(observer_deep_room_or, 1 << 10),
      OWN(observer_cpu_read, 4 << 10),
      OWN(observer_datagram_send, 4 << 10),
      OWN(observer_machine_registers, 1 << 10),
      OWN(observer_progress_read, 4 << 10),
      OWN(observer_ring_write, 4 << 10),
      OWN(observer_work_follow, 8 << 10),
      OWN(observer_sigterm_chain, 4 << 10),
      OWN(observer_slot_read, 8 << 10),
      OWN(observer_task_starved_ns, 4 << 10),
      OWN(observer_wait, 4 << 10),
      OWN(observer_text_take, 4 << 10),
      /* Of the C library; a page each. */
      OWN(clock_gettime, 1),
      OWN(getpid, 1),
      OWN(getrusage, 1),
      OWN(kill, 1),
      OWN(memcpy, 1),
      OWN(memset, 1),
      OWN(nanosleep, 1),
      OWN(open, 1),
      OWN(poll, 1),
      OWN(pread, 1),
      OWN(read, 1),
      OWN(sched_yield, 1),
      OWN(sendto, 1),
      OWN(sigaction, 1),
      OWN(sigprocmask, 1),
      OWN(syscall, 1),
      OWN(write, 1),
      OWN(close, 1),
#undef OWN
  };
  bool is_kept = true;
  for (size_t index = 0; index < sizeof own / sizeof own[0]; index++)
    is_kept &= observer_keep_code_resident((uint64_t)(uintptr_t)own[index].function, own[index].bytes);
  return is_kept;
}

bool observer_keep_stack_resident(void) {
  enum { BYTES = 32 << 10 };
  volatile uint8_t room[BYTES];
  for (size_t at = 0; at < BYTES; at += PAGE)
    room[at] = 0;
  return observer_keep_resident((const void *)room, BYTES);
}
