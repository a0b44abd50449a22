#define _GNU_SOURCE
#include "clinux_residency.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static uint64_t page_of(uint64_t address) { return address & ~(uint64_t)(PAGE - 1); }

static _Atomic uint64_t locked;

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

struct clinux_resident clinux_keep_resident(const void *start, size_t bytes) {
  int saved_errno = errno;
  uint64_t first = page_of((uint64_t)(uintptr_t)start);
  uint64_t last = page_of((uint64_t)(uintptr_t)start + bytes + PAGE - 1);
  bool may = may_lock(last - first);
  bool is_kept = may && syscall(SYS_mlock2, first, last - first, MLOCK_ONFAULT) == 0;
  if (may && !is_kept)
    unlocked(last - first);
  errno = saved_errno;
  return (struct clinux_resident){.start = first, .bytes = is_kept ? last - first : 0};
}

void clinux_let_go_resident(struct clinux_resident kept) { unlocked(kept.bytes); }

void clinux_residency_start_over(void) { atomic_store_explicit(&locked, 0, memory_order_relaxed); }

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

bool clinux_keep_code_resident(uint64_t first, uint64_t last) {
  uint64_t start, end;
  if (!find_code(first + (last - first) / 2, &start, &end))
    return false;
  first = page_of(first);
  last = page_of(last + PAGE - 1);
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

struct clinux_resident clinux_keep_stack_resident(bool at_once) {
  enum { BYTES = 32 << 10 };
  volatile uint8_t room[BYTES];
  if (at_once)
    for (size_t at = 0; at < BYTES; at += PAGE)
      room[at] = 0;
  return clinux_keep_resident((const void *)room, BYTES);
}
