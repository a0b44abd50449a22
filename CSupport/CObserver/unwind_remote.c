#define _GNU_SOURCE
#include "observer_unwind.h"

#include "frame_facts.h"
#include "function_start.h"
#include "unwind_walk.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "observer_context.h"
#include "observer_memory.h"
#include "observer_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libunwind's functions have the architecture in their names; its header's macros know how. */
#define TEXT(name) #name
#define NAME_OF(name) TEXT(name)

#if defined(__x86_64__)
#define LIBRARY "libunwind-x86_64.so.8"
#else
#define LIBRARY "libunwind-aarch64.so.8"
#endif

struct unwind_library observer_libunwind;

/* For each context: libunwind's caches have a lock in each address space. */
static unw_addr_space_t address_spaces[OBSERVER_CONTEXTS_MAX];

static unw_addr_space_t *address_space(void) { return &address_spaces[observer_context]; }

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write, void *context) {
  (void)space;
  uint64_t word;
  if (write || !observer_walk_word(context, address, &word))
    return -UNW_EINVAL;
  *value = word;
  return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write, void *context) {
  (void)space;
  struct walk *walk = context;
  uint64_t word;
  if (write)
    return -UNW_EBADREG;
  if (!observer_arch_unwind_register(&walk->registers, number, &word)) {
    walk->missing = number;
    return -UNW_EBADREG;
  }
  *value = word;
  return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write, void *context) {
  (void)space;
  (void)number;
  (void)value;
  (void)write;
  (void)context;
  return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *context) {
  (void)space;
  (void)cursor;
  (void)context;
  return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t address, char *buffer, size_t length, unw_word_t *offset,
                         void *context) {
  (void)space;
  (void)address;
  (void)buffer;
  (void)length;
  (void)offset;
  (void)context;
  return -UNW_ENOINFO;
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *address, void *context) {
  (void)space;
  (void)address;
  (void)context;
  return -UNW_ENOINFO;
}

/* libunwind frees what its own search allocated (from a pool of its own, backed by mmap); nothing of it is ours. */
static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *information, void *context) {
  (void)space;
  (void)information;
  (void)context;
}

/* The head of .eh_frame_hdr as linkers write it: Linux Standard Base Core, "Exception Frames". Other encodings are legal
 * and never seen: they count as no unwind information. */
struct eh_frame_hdr {
  uint8_t version;
  uint8_t eh_frame_ptr_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  int32_t eh_frame_ptr;
  uint32_t count;
};
enum { DW_EH_PE_udata4 = 0x03, DW_EH_PE_pcrel_sdata4 = 0x1b, DW_EH_PE_datarel_sdata4 = 0x3b };

/* An entry of the table behind it, by which functions are sorted: offsets from the head. */
struct eh_frame_entry {
  int32_t function, description;
};

/* Finds the module that ADDRESS is in, and reads its head. Returns false when there is no such module, or no table that can be
 * read; FOUND says whether there is a module. */
static bool find_table(uint64_t address, struct observer_module *module, struct eh_frame_hdr *header, bool *found) {
  *found = observer_module_find(address, module);
  /* The bounds are checked here because libunwind asserts them. */
  return *found && module->eh_frame_hdr != 0 && address >= module->start && address < module->end &&
         observer_walk_read(module->eh_frame_hdr, header, sizeof *header) && header->version == 1 &&
         header->eh_frame_ptr_encoding == DW_EH_PE_pcrel_sdata4 && header->count_encoding == DW_EH_PE_udata4 &&
         header->table_encoding == DW_EH_PE_datarel_sdata4 && header->count != 0;
}

/* What was found out about functions, for each context. */
enum { FUNCTIONS_REMEMBERED = 256 };
static struct known_function {
  uint64_t address; /* 0: empty */
  struct code_range range;
} known_functions[OBSERVER_CONTEXTS_MAX][FUNCTIONS_REMEMBERED];

static struct known_function *known_function(uint64_t address) {
  return &known_functions[observer_context][(address ^ address >> 8) % FUNCTIONS_REMEMBERED];
}

static int find_proc_info(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *information,
                          int need_unwind_info, void *context) {
  struct walk *walk = context;
  struct observer_module module;
  struct eh_frame_hdr header;
  bool in_module;
  address = observer_arch_code_address(address);
  bool has_table = find_table(address, &module, &header, &in_module);
  walk->no_module |= !in_module;
  walk->no_info |= in_module;
  if (!has_table)
    return -UNW_ENOINFO;
  unw_dyn_info_t table;
  memset(&table, 0, sizeof table);
  table.start_ip = module.start;
  table.end_ip = module.end;
  table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  table.u.rti.segbase = module.eh_frame_hdr;
  table.u.rti.table_data = module.eh_frame_hdr + sizeof header;
  table.u.rti.table_len = header.count; /* in words: an entry is two 32-bit offsets */
  int result = observer_libunwind.search_unwind_table(space, address, &table, information, need_unwind_info, context);
  walk->no_info = result < 0;
  if (result >= 0)
    *known_function(address) = (struct known_function){
        address, {information->start_ip, information->end_ip, information->lsda != 0}};
  return result;
}

bool observer_walk_between(uint64_t address, struct code_range *range) {
  struct observer_module module;
  struct eh_frame_hdr header;
  struct eh_frame_entry entry;
  struct code_range before;
  bool in_module;
  if (!find_table(address, &module, &header, &in_module))
    return false;
  uint64_t table = module.eh_frame_hdr + sizeof header;
  uint32_t low = 0, high = header.count; /* the first entry of a function behind ADDRESS */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (!observer_walk_read(table + (uint64_t)middle * sizeof entry, &entry, sizeof entry))
      return false;
    if (module.eh_frame_hdr + (uint64_t)(int64_t)entry.function <= address)
      low = middle + 1;
    else
      high = middle;
  }
  range->end = module.end;
  if (low < header.count) {
    if (!observer_walk_read(table + (uint64_t)low * sizeof entry, &entry, sizeof entry))
      return false;
    range->end = module.eh_frame_hdr + (uint64_t)(int64_t)entry.function;
  }
  if (low == 0 || !observer_walk_read(table + (uint64_t)(low - 1) * sizeof entry, &entry, sizeof entry) ||
      !observer_walk_function(module.eh_frame_hdr + (uint64_t)(int64_t)entry.function, &before))
    return false;
  range->start = before.end;
  range->catches = false;
  return range->start <= address && address < range->end;
}

bool observer_walk_function(uint64_t address, struct code_range *range) {
  static const struct observer_copy no_stack;
  const struct known_function *known = known_function(address);
  if (known->address == address) {
    *range = known->range;
    return true;
  }
  unw_proc_info_t information;
  struct walk walk = {.copy = &no_stack};
  if (find_proc_info(*address_space(), address, &information, 0, &walk) < 0)
    return false;
  *range = (struct code_range){information.start_ip, information.end_ip, information.lsda != 0};
  return true;
}

bool observer_walk_frame_function(unw_cursor_t *cursor, struct code_range *range) {
  unw_proc_info_t information;
  if (observer_libunwind.get_proc_info(cursor, &information) != 0)
    return false;
  *range = (struct code_range){information.start_ip, information.end_ip, information.lsda != 0};
  return true;
}

static unw_accessors_t accessors = {
    .find_proc_info = find_proc_info,
    .put_unwind_info = put_unwind_info,
    .get_dyn_info_list_addr = get_dyn_info_list_addr,
    .access_mem = access_mem,
    .access_reg = access_reg,
    .access_fpreg = access_fpreg,
    .resume = resume,
    .get_proc_name = get_proc_name,
};

const char *observer_unwind_prepare(bool is_first) {
  if (*address_space())
    return NULL;
  unw_addr_space_t space = observer_libunwind.create_addr_space(&accessors, 0);
  if (!space)
    return "libunwind cannot create an address space";
  /* Off by default for an address space made this way (unw_set_caching_policy(3)), and worth a factor of five. */
  observer_libunwind.set_caching_policy(space, UNW_CACHE_GLOBAL);
  if (is_first)
    observer_libunwind.set_cache_size(space, 1024, 0);
  *address_space() = space;
  return NULL;
}

/* Whether what is used is a copy of the library that nobody else has, and the process that it was loaded in. */
static bool is_private;
static pid_t owner;

/* Makes the SIZE bytes at FILE, a shared library, one that the loader takes for no other: without a name of its own, it is
 * not what somebody else asks for by that name. Its references to itself are bound to itself (DT_SYMBOLIC), also where the
 * same library is in the global scope; those to the C library are bound as before. Returns whether it could. */
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
    copy = memfd_create(LIBRARY, MFD_CLOEXEC);
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

/* Loads LIBRARY once more, so that nobody else has it; NULL where that cannot be done. SHARED is the library as the process shares
 * it.
 *
 * A library that the service uses as well has its locks in common with the service, RTLD_LOCAL or not: a thread of the
 * service that is held up in it would hold up the monitor. The loader takes two files for two libraries. Where there is no memfd_create(2), or /proc is not
 * there or not for this process, a namespace of its own does the same (dlmopen): it brings a C library along, which takes
 * 0.9 MiB more, and debuggers do not look into it. */
static void *load_private(void *shared) {
  struct link_map *map;
  int copy = -1;
  if (dlinfo(shared, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == '/')
    copy = copy_library(map->l_name);
  if (copy < 0)
    return dlmopen(LM_ID_NEWLM, LIBRARY, RTLD_NOW | RTLD_LOCAL);
  /* Where the library came from, spelled as nobody asks for it: what debuggers and whoever else lists the libraries are to
   * find. The descriptor's name, which is closed below, is overwritten with it, and is long enough for it (slashes). */
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
  return library ? library : dlmopen(LM_ID_NEWLM, LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

bool observer_unwind_is_private(void) { return is_private; }

const char *observer_unwind_start(void) {
  /* After fork(2) the copy may be locked by a thread of the parent's, which is not here: the child loads another one. */
  if (owner != getpid())
    memset(address_spaces, 0, sizeof address_spaces);
  if (*address_space())
    return NULL;
  void *shared = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!shared) {
    static char reason[256];
    const char *why = dlerror();
    snprintf(reason, sizeof reason, LIBRARY " cannot be loaded (Debian's package libunwind8 has it): %s", why ? why : "");
    return reason;
  }
  void *library = load_private(shared);
  is_private = library != NULL;
  if (library)
    dlclose(shared);
  else
    library = shared;
  const struct {
    void *function;
    const char *name;
  } wanted[] = {
      {&observer_libunwind.create_addr_space, NAME_OF(unw_create_addr_space)},
      {&observer_libunwind.init_remote, NAME_OF(unw_init_remote)},
      {&observer_libunwind.step, NAME_OF(unw_step)},
      {&observer_libunwind.get_reg, NAME_OF(unw_get_reg)},
      {&observer_libunwind.get_proc_info, NAME_OF(unw_get_proc_info)},
      {&observer_libunwind.is_signal_frame, NAME_OF(unw_is_signal_frame)},
      {&observer_libunwind.set_caching_policy, NAME_OF(unw_set_caching_policy)},
      {&observer_libunwind.set_cache_size, NAME_OF(unw_set_cache_size)},
      {&observer_libunwind.flush_cache, NAME_OF(unw_flush_cache)},
      {&observer_libunwind.search_unwind_table, NAME_OF(UNW_OBJ(dwarf_search_unwind_table))},
  };
  static char missing[160];
  for (size_t index = 0; index < sizeof wanted / sizeof wanted[0]; index++) {
    void *symbol = dlsym(library, wanted[index].name);
    if (!symbol) {
      snprintf(missing, sizeof missing, "%s has no function %s", LIBRARY, wanted[index].name);
      dlclose(library);
      return missing;
    }
    memcpy(wanted[index].function, &symbol, sizeof symbol);
  }
  owner = getpid();
  return observer_unwind_prepare(true);
}

void observer_unwind_forget(void) {
  observer_module_forget();
  observer_facts_forget();
  observer_function_starts_forget();
  memset(known_functions[observer_context], 0, sizeof known_functions[0]);
  if (*address_space())
    observer_libunwind.flush_cache(*address_space(), 0, 0);
}

bool observer_walk_begin(struct walk *walk, unw_cursor_t *cursor) {
  observer_walk_forget();
  return observer_walk_resume(walk, cursor);
}

bool observer_walk_resume(struct walk *walk, unw_cursor_t *cursor) {
  return *address_space() && observer_libunwind.init_remote(cursor, *address_space(), walk) == 0;
}

bool observer_walk_describes(struct walk *walk, uint64_t address) {
  bool no_module = walk->no_module, no_info = walk->no_info;
  unw_proc_info_t information;
  bool describes = find_proc_info(*address_space(), address, &information, 0, walk) == 0;
  walk->no_module = no_module;
  walk->no_info = no_info;
  return describes;
}

static void clear(struct walk *walk) {
  walk->beyond_copy = walk->unreadable = walk->no_module = walk->no_info = false;
  walk->missing = -1;
}

/* Whether the instruction before CURSOR's address is a call. */
static bool follows_call(unw_cursor_t *cursor) {
  uint8_t code[OBSERVER_CALL_BYTES];
  unw_word_t pc;
  uint64_t target;
  return observer_libunwind.get_reg(cursor, UNW_REG_IP, &pc) == 0 &&
         observer_walk_read(pc - sizeof code, code, sizeof code) &&
         observer_arch_call_before(code, pc, &target) != OBSERVER_CALL_NONE;
}

int observer_walk_step(struct walk *walk, unw_cursor_t *cursor, bool interrupted) {
  clear(walk);
  /* libunwind's memory goes by the address alone, which means one thing where a thread was interrupted and another
   * where a call returns to: after the call of a function that does not return there is another function, or a part
   * with another frame. */
  bool ambiguous = interrupted && follows_call(cursor);
  if (ambiguous)
    observer_libunwind.flush_cache(*address_space(), 0, 0);
  int result = observer_libunwind.step(cursor);
  if (ambiguous)
    observer_libunwind.flush_cache(*address_space(), 0, 0);
  /* Where unwind information is not enough libunwind guesses, and takes a guess that fails for the end. */
  if (result == 0 && (walk->beyond_copy || walk->missing >= 0 || walk->no_info || walk->no_module || walk->unreadable))
    return -UNW_EBADFRAME;
  return result;
}

bool observer_walk_interrupted(unw_cursor_t *before, unw_cursor_t *now) {
#if defined(__x86_64__)
  (void)before;
  return observer_libunwind.is_signal_frame(now) > 0;
#else
  (void)now;
  return observer_libunwind.is_signal_frame(before) > 0;
#endif
}

#else

const char *observer_unwind_start(void) { return "this processor architecture is not supported"; }

const char *observer_unwind_prepare(bool is_first) {
  (void)is_first;
  return observer_unwind_start();
}

bool observer_unwind_is_private(void) { return false; }

void observer_unwind_forget(void) {}

#endif
