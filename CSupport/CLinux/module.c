#define _GNU_SOURCE
#include "clinux_module.h"

#include "clinux_context.h"
#include "clinux_descriptor.h"
#include "clinux_memory.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

static bool from_maps;

/* Weak: glibc before 2.35 lacks the function. */
#if defined(DLFO_EH_SEGMENT_TYPE)
#pragma weak _dl_find_object

static bool loader_knows(void) { return _dl_find_object != NULL; }

static bool find_by_loader(uint64_t address, struct clinux_module *module) {
  struct dl_find_object found;
  if (_dl_find_object((void *)(uintptr_t)address, &found) != 0)
    return false;
  module->start = (uint64_t)(uintptr_t)found.dlfo_map_start;
  module->end = (uint64_t)(uintptr_t)found.dlfo_map_end;
  module->eh_frame_hdr = (uint64_t)(uintptr_t)found.dlfo_eh_frame;
  return true;
}

bool clinux_module_file(uint64_t address, uint64_t *start, char *path, size_t length) {
  struct dl_find_object found;
  struct link_map map;
  if (length == 0 || !_dl_find_object || _dl_find_object((void *)(uintptr_t)address, &found) != 0 ||
      !clinux_memory_read((uint64_t)(uintptr_t)found.dlfo_link_map, &map, sizeof map))
    return false;
  *start = (uint64_t)(uintptr_t)found.dlfo_map_start;
  /* Reads one byte at a time: the next page might be unmapped. */
  for (size_t at = 0; at < length; at++) {
    if (!clinux_memory_read((uint64_t)(uintptr_t)map.l_name + at, path + at, 1))
      break;
    if (path[at] == '\0')
      return true;
  }
  return false;
}
#else
bool clinux_module_file(uint64_t address, uint64_t *start, char *path, size_t length) {
  (void)address;
  (void)start;
  (void)path;
  (void)length;
  return false;
}

static bool loader_knows(void) { return false; }

static bool find_by_loader(uint64_t address, struct clinux_module *module) {
  (void)address;
  (void)module;
  return false;
}
#endif

enum { MODULES_MAX = 4096, LINE_MAX_BYTES = 512, READ_BYTES = 16384 };
static struct module_table {
  bool is_current;
  uint32_t count;
  struct clinux_module modules[MODULES_MAX];
  char text[READ_BYTES];
  char line[LINE_MAX_BYTES];
} tables[CLINUX_CONTEXTS_MAX];

static struct module_table *table(void) { return &tables[clinux_context]; }

static bool take_hexadecimal(const char **text, uint64_t *value) {
  const char *at = *text;
  uint64_t result = 0;
  for (;; at++) {
    uint64_t digit = *at >= '0' && *at <= '9'   ? (uint64_t)(*at - '0')
                     : *at >= 'a' && *at <= 'f' ? (uint64_t)(*at - 'a' + 10)
                                                : 16;
    if (digit == 16)
      break;
    result = result * 16 + digit;
  }
  bool has_digits = at > *text;
  *text = at;
  *value = result;
  return has_digits;
}

/* Adds the module whose ELF header is at START, if any. */
static void add_module(uint64_t start) {
  Elf64_Ehdr header;
  if (table()->count == MODULES_MAX || !clinux_memory_read(start, &header, sizeof header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr))
    return;
  uint64_t first = UINT64_MAX, last = 0, tables = 0;
  for (uint64_t index = 0; index < header.e_phnum; index++) {
    Elf64_Phdr segment;
    if (!clinux_memory_read(start + header.e_phoff + index * sizeof segment, &segment, sizeof segment))
      return;
    if (segment.p_type == PT_LOAD && segment.p_vaddr < first)
      first = segment.p_vaddr & ~(segment.p_align ? segment.p_align - 1 : 0);
    if (segment.p_type == PT_LOAD && segment.p_vaddr + segment.p_memsz > last)
      last = segment.p_vaddr + segment.p_memsz;
    if (segment.p_type == PT_GNU_EH_FRAME)
      tables = segment.p_vaddr;
  }
  if (first >= last)
    return;
  struct clinux_module *module = &table()->modules[table()->count++];
  module->start = start;
  module->end = start + (last - first);
  module->eh_frame_hdr = tables ? start + (tables - first) : 0;
}

/* Parses a line of /proc/self/maps (proc(5)): "55d0a000-55d0b000 r--p 00000000 fe:00 1234 /usr/bin/name". */
static void add_line(const char *line) {
  uint64_t start, end, offset;
  if (!take_hexadecimal(&line, &start) || *line++ != '-' || !take_hexadecimal(&line, &end) || *line++ != ' ')
    return;
  bool is_readable = line[0] == 'r';
  for (int skipped = 0; skipped < 5; skipped++)
    if (*line++ == '\0')
      return;
  if (!take_hexadecimal(&line, &offset))
    return;
  bool is_named = strchr(line, '/') != NULL || strstr(line, "[vdso]") != NULL;
  if (is_readable && offset == 0 && is_named)
    add_module(start);
}

static void read_maps(void) {
  char *text = table()->text;
  char *line = table()->line;
  size_t length = 0;
  int saved_errno = errno;
  table()->count = 0;
  table()->is_current = true;
  struct clinux_descriptor maps =
      clinux_descriptor_keep((int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC, 0));
  long count;
  while (clinux_descriptor_is_ours(&maps) && (count = syscall(SYS_read, maps.number, text, READ_BYTES)) > 0) {
    for (long index = 0; index < count; index++) {
      if (text[index] == '\n') {
        line[length] = '\0';
        add_line(line);
        length = 0;
      } else if (length < LINE_MAX_BYTES - 1) {
        line[length++] = text[index];
      }
    }
  }
  clinux_descriptor_close(&maps);
  errno = saved_errno;
}

static bool find_in_maps(uint64_t address, struct clinux_module *module) {
  if (!table()->is_current)
    read_maps();
  for (uint32_t index = 0; index < table()->count; index++) {
    if (address >= table()->modules[index].start && address < table()->modules[index].end) {
      *module = table()->modules[index];
      return true;
    }
  }
  return false;
}

const char *clinux_module_executable(void) { return (const char *)(uintptr_t)getauxval(AT_EXECFN); }

enum clinux_module_way clinux_module_start(bool use_loader) {
  from_maps = !use_loader || !loader_knows();
  if (!from_maps)
    return CLINUX_MODULES_BY_LOADER;
  read_maps();
  return table()->count > 0 ? CLINUX_MODULES_BY_MAPS : CLINUX_MODULES_UNKNOWN;
}

void clinux_module_forget(void) { table()->is_current = false; }

bool clinux_module_find(uint64_t address, struct clinux_module *module) {
  return from_maps ? find_in_maps(address, module) : loader_knows() && find_by_loader(address, module);
}
