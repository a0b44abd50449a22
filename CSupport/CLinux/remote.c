#define _GNU_SOURCE
#include "clinux_remote.h"

#include "clinux_descriptor.h"
#include "clinux_memory.h"
#include "clinux_module.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REMOTES_MAX = 128, COPIES_MAX = 512, PAGE = 4096 };

/* A registered file's mapping. Entries are taken in order and reused; `end` is 0 in a free entry, and is written
 * last. */
struct remote {
  _Atomic uint64_t start;
  _Atomic uint64_t end;
};
static struct remote remotes[REMOTES_MAX];
static _Atomic uint32_t remotes_used;
static _Atomic uint32_t remotes_count;

/* A copied part of a file, in memory that is never freed. */
struct copy {
  _Atomic uint64_t start;
  _Atomic uint64_t end;
  const uint8_t *_Atomic bytes;
};
static struct copy copies[COPIES_MAX];
static _Atomic uint32_t copies_used;

/* The state of parsing a line of maps: "7f00a000-7f00b000 r-xp 00001000 00:35 1234   /mnt/plug-in.so". */
struct line {
  int field;       /* index of the current field */
  uint64_t hash;   /* hash of the characters so far */
  uint64_t device; /* a hash of its device */
  bool is_code;
  bool has_inode;
};

static const uint64_t hash_begin = UINT64_C(0xcbf29ce484222325);

static uint64_t hash_of(uint64_t before, char character) {
  return (before ^ (uint8_t)character) * UINT64_C(0x100000001b3);
}

/* Ends LINE. *OWN is the device of the first file in maps, the executable; 0 before that. */
static void end_line(struct line *line, uint64_t *own, uint64_t *signature, uint32_t *lines) {
  ++*lines;
  if (line->has_inode && *own == 0)
    *own = line->device;
  if (line->is_code && line->has_inode && line->device != *own)
    *signature = (*signature ^ line->hash) * UINT64_C(0x100000001b3) + 1;
  *line = (struct line){.hash = hash_begin, .device = hash_begin};
}

static void add_character(struct line *line, char character, char before) {
  if (character == ' ' && before != ' ')
    line->field++;
  if (line->field == 1 && character == 'x')
    line->is_code = true;
  if (line->field == 3)
    line->device = hash_of(line->device, character);
  if (line->field == 4 && character >= '1' && character <= '9')
    line->has_inode = true;
  line->hash = hash_of(line->hash, character);
}

uint64_t clinux_remote_signature(uint32_t *lines) {
  int saved_errno = errno;
  char text[8192], before = '\n';
  uint64_t signature = 0, own = 0;
  struct line line = {.hash = hash_begin, .device = hash_begin};
  *lines = 0;
  struct clinux_descriptor maps =
      clinux_descriptor_keep((int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC, 0));
  long count;
  while (clinux_descriptor_is_ours(&maps) && (count = syscall(SYS_read, maps.number, text, sizeof text)) > 0)
    for (long index = 0; index < count; index++) {
      if (text[index] == '\n')
        end_line(&line, &own, &signature, lines);
      else
        add_character(&line, text[index], before);
      before = text[index];
    }
  clinux_descriptor_close(&maps);
  errno = saved_errno;
  return signature;
}

uint32_t clinux_remote_count(void) { return atomic_load_explicit(&remotes_count, memory_order_acquire); }

/* Whether all pages of the LENGTH bytes at ADDRESS are in the process's page tables: bit 63 of their words in pagemap
 * (Documentation/admin-guide/mm/pagemap.rst). False if pagemap is not available. */
static bool is_present(uint64_t address, size_t length) {
  struct clinux_descriptor map =
      clinux_descriptor_keep((int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC, 0));
  bool present = map.number >= 0;
  for (uint64_t page = address / PAGE; present && page <= (address + length - 1) / PAGE; page++) {
    uint64_t word = 0;
    present = syscall(SYS_pread64, map.number, &word, sizeof word, (long)(page * sizeof word)) == sizeof word &&
              (word >> 63 & 1) != 0;
  }
  clinux_descriptor_close(&map);
  return present;
}

static enum clinux_memory_advice judge(uint64_t address, size_t length, const uint8_t **copy) {
  uint32_t used = atomic_load_explicit(&remotes_used, memory_order_acquire);
  bool is_remote = false;
  uint64_t start = 0;
  for (uint32_t place = 0; place < used && !is_remote; place++) {
    uint64_t end = atomic_load_explicit(&remotes[place].end, memory_order_acquire);
    start = atomic_load_explicit(&remotes[place].start, memory_order_relaxed);
    is_remote = address < end && address + length > start;
  }
  struct clinux_module module;
  /* The file might have been unloaded, and another module might be at its address. */
  if (!is_remote || (clinux_module_find(address, &module) && module.start != start))
    return CLINUX_MEMORY_READ;
  used = atomic_load_explicit(&copies_used, memory_order_acquire);
  for (uint32_t place = 0; place < used; place++) {
    uint64_t end = atomic_load_explicit(&copies[place].end, memory_order_acquire);
    uint64_t first = atomic_load_explicit(&copies[place].start, memory_order_relaxed);
    if (address >= first && address < end && length <= end - address) {
      *copy = atomic_load_explicit(&copies[place].bytes, memory_order_relaxed) + (address - first);
      return CLINUX_MEMORY_COPIED;
    }
  }
  return is_present(address, length) ? CLINUX_MEMORY_READ : CLINUX_MEMORY_ABSENT;
}

/* The adviser of clinux_memory_set_adviser. */
static enum clinux_memory_advice advise(uint64_t address, size_t length, const uint8_t **copy) {
  if (clinux_remote_count() == 0)
    return CLINUX_MEMORY_READ;
  int saved_errno = errno;
  enum clinux_memory_advice advice = judge(address, length, copy);
  errno = saved_errno;
  return advice;
}

bool clinux_remote_add(uint64_t start, uint64_t end) {
  uint32_t used = atomic_load_explicit(&remotes_used, memory_order_relaxed), place = 0;
  while (place < used && atomic_load_explicit(&remotes[place].end, memory_order_relaxed) != 0)
    place++;
  if (place == REMOTES_MAX)
    return false;
  atomic_store_explicit(&remotes[place].start, start, memory_order_relaxed);
  atomic_store_explicit(&remotes[place].end, end, memory_order_release);
  if (place == used)
    atomic_store_explicit(&remotes_used, used + 1, memory_order_release);
  clinux_memory_set_adviser(advise);
  atomic_fetch_add_explicit(&remotes_count, 1, memory_order_release);
  return true;
}

size_t clinux_remote_copy(uint64_t start, uint64_t end) {
  uint32_t used = atomic_load_explicit(&copies_used, memory_order_relaxed), place = 0;
  while (place < used && atomic_load_explicit(&copies[place].end, memory_order_relaxed) != 0)
    place++;
  if (place == COPIES_MAX || end <= start)
    return 0;
  uint8_t *bytes = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED)
    return 0;
  size_t copied = clinux_memory_read_anyway(start, bytes, end - start);
  if (copied == 0) {
    munmap(bytes, end - start);
    return 0;
  }
  atomic_store_explicit(&copies[place].bytes, bytes, memory_order_relaxed);
  atomic_store_explicit(&copies[place].start, start, memory_order_relaxed);
  atomic_store_explicit(&copies[place].end, start + copied, memory_order_release);
  if (place == used)
    atomic_store_explicit(&copies_used, used + 1, memory_order_release);
  return copied;
}

void clinux_remote_remove(uint64_t start) {
  uint32_t used = atomic_load_explicit(&remotes_used, memory_order_relaxed);
  for (uint32_t place = 0; place < used; place++) {
    uint64_t end = atomic_load_explicit(&remotes[place].end, memory_order_relaxed);
    if (end == 0 || atomic_load_explicit(&remotes[place].start, memory_order_relaxed) != start)
      continue;
    for (uint32_t copy = 0; copy < atomic_load_explicit(&copies_used, memory_order_relaxed); copy++) {
      uint64_t first = atomic_load_explicit(&copies[copy].start, memory_order_relaxed);
      if (first >= start && first < end)
        atomic_store_explicit(&copies[copy].end, 0, memory_order_release);
    }
    atomic_store_explicit(&remotes[place].end, 0, memory_order_release);
    atomic_fetch_sub_explicit(&remotes_count, 1, memory_order_release);
    return;
  }
}
