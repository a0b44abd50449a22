#define _GNU_SOURCE
#include "observer_unwind.h"

#include "frame_facts.h"
#include "unwind_walk.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "observer_context.h"
#include "observer_memory.h"
#include "observer_module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

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

static int find_proc_info(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *information,
                          int need_unwind_info, void *context) {
  struct walk *walk = context;
  struct observer_module module;
  address = observer_arch_code_address(address);
  if (!observer_module_find(address, &module)) {
    walk->no_module = true;
    return -UNW_ENOINFO;
  }
  walk->no_info = true;
  struct eh_frame_hdr header;
  /* The bounds are checked here because libunwind asserts them. */
  if (module.eh_frame_hdr == 0 || address < module.start || address >= module.end ||
      !observer_walk_read(module.eh_frame_hdr, &header, sizeof header) || header.version != 1 ||
      header.eh_frame_ptr_encoding != DW_EH_PE_pcrel_sdata4 || header.count_encoding != DW_EH_PE_udata4 ||
      header.table_encoding != DW_EH_PE_datarel_sdata4 || header.count == 0)
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
  return result;
}

bool observer_walk_function(uint64_t address, struct code_range *range) {
  static const struct observer_copy no_stack;
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

const char *observer_unwind_start(void) {
  if (*address_space())
    return NULL;
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return LIBRARY " cannot be loaded (Debian's package libunwind8 has it)";
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
  return observer_unwind_prepare(true);
}

void observer_unwind_forget(void) {
  observer_module_forget();
  observer_facts_forget();
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

void observer_unwind_forget(void) {}

#endif
