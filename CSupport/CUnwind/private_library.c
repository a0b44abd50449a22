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

/* A shared library in memory: SIZE bytes at FILE, and the file offset of its dynamic section. */
struct library {
  unsigned char *file;
  size_t size;
  size_t dynamic, dynamic_size;
};

/* Reads program header INDEX of LIBRARY. Returns false if there is none. */
static bool read_segment(const struct library *library, size_t index, ElfW(Phdr) * part) {
  ElfW(Ehdr) head;
  if (library->size < sizeof head)
    return false;
  memcpy(&head, library->file, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof *part || head.e_phoff > library->size ||
      head.e_phnum > (library->size - head.e_phoff) / sizeof *part || index >= head.e_phnum)
    return false;
  memcpy(part, library->file + head.e_phoff + index * sizeof *part, sizeof *part);
  return part->p_offset <= library->size && part->p_filesz <= library->size - part->p_offset;
}

static bool find_dynamic(struct library *library) {
  ElfW(Phdr) part;
  for (size_t index = 0; read_segment(library, index, &part); index++) {
    if (part.p_type != PT_DYNAMIC)
      continue;
    library->dynamic = part.p_offset;
    library->dynamic_size = part.p_filesz;
    return true;
  }
  return false;
}

/* Finds the dynamic entry TAG of LIBRARY. Sets *ENTRY and returns its file offset, or 0 if there is none. */
static size_t find_entry(const struct library *library, ElfW(Sxword) tag, ElfW(Dyn) * entry) {
  for (size_t place = 0; place + sizeof *entry <= library->dynamic_size; place += sizeof *entry) {
    memcpy(entry, library->file + library->dynamic + place, sizeof *entry);
    if (entry->d_tag == DT_NULL)
      break;
    if (entry->d_tag == tag)
      return library->dynamic + place;
  }
  return 0;
}

/* Removes the name of LIBRARY, so the loader does not use it for another library's request by that name. Its references
 * to itself are bound to itself (DT_SYMBOLIC), even if the global scope has the same library; references to the C
 * library are not affected. Returns whether it succeeded. */
static bool make_nameless(const struct library *library) {
  ElfW(Dyn) entry;
  size_t place = find_entry(library, DT_SONAME, &entry);
  if (place == 0)
    return false;
  entry.d_tag = DT_SYMBOLIC;
  memcpy(library->file + place, &entry, sizeof entry);
  return true;
}

/* Replaces LIBRARY's reference to the C library's function NAME by OTHER, which has the same version (ld.so(8)) and a
 * shorter name. */
static void replace_reference(const struct library *library, const char *name, const char *other) {
  char from[16] = {0}, to[16] = {0};
  size_t length = strlen(name) + 2;
  ElfW(Dyn) table, size;
  ElfW(Phdr) part;
  if (length > sizeof from || find_entry(library, DT_STRTAB, &table) == 0 || find_entry(library, DT_STRSZ, &size) == 0)
    return;
  memcpy(from + 1, name, length - 2);
  memcpy(to + 1, other, strlen(other));
  for (size_t index = 0; read_segment(library, index, &part); index++) {
    if (part.p_type != PT_LOAD || table.d_un.d_ptr < part.p_vaddr || table.d_un.d_ptr - part.p_vaddr > part.p_filesz ||
        size.d_un.d_val > part.p_filesz - (table.d_un.d_ptr - part.p_vaddr))
      continue;
    unsigned char *strings = library->file + part.p_offset + (table.d_un.d_ptr - part.p_vaddr);
    unsigned char *found = memmem(strings, size.d_un.d_val, from, length);
    if (found)
      memcpy(found, to, length);
    return;
  }
}

/* Disables the library's probe at initialization for reading its own process's memory, which the unwinder never uses.
 * The probe calls mincore(2), which sandboxes do not expect (systemd's @system-service terminates the caller), and its
 * pipe would occupy two descriptors permanently. The replacements have no effect: abs() of a stack address is not a
 * success to the library, and dup3() of one is not a valid descriptor. */
static void leave_out_validation(const struct library *library) {
  replace_reference(library, "mincore", "abs");
  replace_reference(library, "pipe2", "dup3");
}

/* Returns a descriptor of a nameless copy of the library at PATH in memory, or -1. */
static int copy_library(const char *path) {
  struct stat information;
  int copy = -1;
  int source = open(path, O_RDONLY | O_CLOEXEC);
  if (source < 0)
    return -1;
  struct rlimit limit;
  /* Writing beyond the limit would raise SIGXFSZ, which ends the process. */
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
    struct library library = {.file = bytes, .size = size};
    bool is_made = bytes != MAP_FAILED && count == size && find_dynamic(&library) && make_nameless(&library);
    if (is_made)
      leave_out_validation(&library);
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
  /* The original path in an unusual spelling that no request uses; debuggers find the file by it. It overwrites the
   * name of the descriptor, which is closed below and is padded with slashes to be long enough. */
  char real[512], name[600];
  const char *base = strrchr(map->l_name, '/');
  int length = snprintf(real, sizeof real, "%.*s/%s", (int)(base - map->l_name), map->l_name, base);
  /* The thread's own directory: /proc/self is empty after the main thread has exited. */
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
