#define _GNU_SOURCE
#include "private_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Makes the SIZE bytes at FILE, a shared library, one that the loader takes for no other: without a name of its own, it
 * is not what somebody else asks for by that name. Its references to itself are bound to itself (DT_SYMBOLIC), also
 * where the same library is in the global scope; those to the C library are bound as before. Returns whether it could.
 */
static bool make_nameless(unsigned char *file, size_t size) {
  ElfW(Ehdr) head;
  if (size < sizeof head)
    return false;
  memcpy(&head, file, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr)) || head.e_phoff > size ||
      head.e_phnum > (size - head.e_phoff) / sizeof(ElfW(Phdr)))
    return false;
  for (size_t index = 0; index < head.e_phnum; index++) {
    ElfW(Phdr) part;
    memcpy(&part, file + head.e_phoff + index * sizeof part, sizeof part);
    if (part.p_type != PT_DYNAMIC || part.p_offset > size || part.p_filesz > size - part.p_offset)
      continue;
    for (size_t place = 0; place + sizeof(ElfW(Dyn)) <= part.p_filesz; place += sizeof(ElfW(Dyn))) {
      ElfW(Dyn) entry;
      memcpy(&entry, file + part.p_offset + place, sizeof entry);
      if (entry.d_tag == DT_NULL)
        break;
      if (entry.d_tag != DT_SONAME)
        continue;
      entry.d_tag = DT_SYMBOLIC;
      memcpy(file + part.p_offset + place, &entry, sizeof entry);
      return true;
    }
  }
  return false;
}

/* A descriptor of a nameless copy of the library at PATH, in memory; -1 where there can be none. */
static int copy_library(const char *path) {
  struct stat information;
  int copy = -1;
  int source = open(path, O_RDONLY | O_CLOEXEC);
  if (source < 0)
    return -1;
  struct rlimit limit;
  /* SIGXFSZ would end the process. */
  bool fits = getrlimit(RLIMIT_FSIZE, &limit) == 0 && fstat(source, &information) == 0 &&
              (uint64_t)information.st_size <= limit.rlim_cur;
  if (fits && information.st_size > 0 && information.st_size < 16 << 20) {
    size_t size = (size_t)information.st_size, count = 0;
    copy = memfd_create("culprit-library", MFD_CLOEXEC);
    unsigned char *bytes = MAP_FAILED;
    if (copy >= 0 && ftruncate(copy, information.st_size) == 0)
      bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
    if (bytes != MAP_FAILED) {
      ssize_t got;
      while (count < size && (got = pread(source, bytes + count, size - count, (off_t)count)) > 0)
        count += (size_t)got;
    }
    bool is_made = bytes != MAP_FAILED && count == size && make_nameless(bytes, size);
    if (bytes != MAP_FAILED)
      munmap(bytes, size);
    if (copy >= 0 && !is_made) {
      close(copy);
      copy = -1;
    }
  }
  close(source);
  return copy;
}

void *cunwind_load_private(const char *library_name, void *shared) {
  struct link_map *map;
  int copy = -1;
  if (dlinfo(shared, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == '/')
    copy = copy_library(map->l_name);
  if (copy < 0)
    return dlmopen(LM_ID_NEWLM, library_name, RTLD_NOW | RTLD_LOCAL);
  /* Where the library came from, spelled as nobody asks for it: what debuggers and whoever else lists the libraries are
   * to find. The descriptor's name, which is closed below, is overwritten with it, and is long enough for it (slashes).
   */
  char real[512], name[600];
  const char *base = strrchr(map->l_name, '/');
  int length = snprintf(real, sizeof real, "%.*s/%s", (int)(base - map->l_name), map->l_name, base);
  /* The thread's own: /proc/self is empty once the main thread has exited. */
  int head = snprintf(name, sizeof name, "/proc/%d/task/%ld/fd/", (int)getpid(), syscall(SYS_gettid));
  while (head > 0 && head < length && head < (int)sizeof name - 16)
    name[head++] = '/';
  snprintf(name + head, sizeof name - (size_t)head, "%d", copy);
  void *library = length < (int)sizeof real ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
  close(copy);
  if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && strcmp(map->l_name, name) == 0)
    memcpy(map->l_name, real, (size_t)length + 1);
  return library ? library : dlmopen(LM_ID_NEWLM, library_name, RTLD_NOW | RTLD_LOCAL);
}
