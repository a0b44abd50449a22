#include "cursor.h"

#include "private_library.h"
#include "process_memory.h"
#include "rule_cursor.h"
#include "unwind_tables.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <dlfcn.h>
#include <libunwind.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* libunwind's function names contain the architecture; its header defines macros for them. */
#define TEXT(name) #name
#define NAME_OF(name) TEXT(name)

#if defined(__x86_64__)
#define LIBRARY "libunwind-x86_64.so.8"
_Static_assert((int)UNW_X86_64_RSP == 7 && (int)UNW_X86_64_RIP == 16, "libunwind numbers registers as DWARF does");
#else
#define LIBRARY "libunwind-aarch64.so.8"
_Static_assert((int)UNW_AARCH64_X30 == 30 && (int)UNW_AARCH64_SP == 31, "libunwind numbers registers as DWARF does");
#endif
_Static_assert(sizeof(unw_cursor_t) <= CURSOR_WORDS * sizeof(uint64_t), "libunwind's cursor fits into ours");

/* The loaded libunwind. The only process-wide state in CUnwind. */
static struct {
  __typeof__(&unw_create_addr_space) create_addr_space;
  __typeof__(&unw_init_remote) init_remote;
  __typeof__(&unw_step) step;
  __typeof__(&unw_get_reg) get_reg;
  __typeof__(&unw_get_save_loc) get_save_loc;
  __typeof__(&unw_get_proc_info) get_proc_info;
  __typeof__(&unw_is_signal_frame) is_signal_frame;
  __typeof__(&unw_set_caching_policy) set_caching_policy;
  __typeof__(&unw_set_cache_size) set_cache_size;
  __typeof__(&unw_flush_cache) flush_cache;
  /* Internal to libunwind but exported: binary search in a module's .eh_frame_hdr, and decoding of the entry. */
  int (*search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int, void *);
  bool is_private;
  pid_t owner;         /* the process that loaded it; 0: none */
  const char *missing; /* why it is not loaded */
} libunwind = {.missing = "libunwind has not been loaded"};

static unw_cursor_t *native(struct cursor *cursor) { return (unw_cursor_t *)cursor->words; }

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write, void *context) {
  (void)space;
  uint64_t word;
  if (write || !cunwind_word(context, address, &word))
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
  if (!cunwind_register(walk->unwinder->architecture, &walk->registers, number, &word)) {
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

/* libunwind frees its own allocations (from its own pool, backed by mmap). */
static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *information, void *context) {
  (void)space;
  (void)information;
  (void)context;
}

static int find_proc_info(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *information,
                          int need_unwind_info, void *context) {
  struct walk *walk = context;
  struct unwind_table table;
  bool in_module;
  address = cunwind_code_address(walk->unwinder, address);
  bool has_table = cunwind_find_table(walk->unwinder, address, &table, &in_module);
  walk->no_module |= !in_module;
  walk->no_info |= in_module;
  if (!has_table)
    return -UNW_ENOINFO;
  unw_dyn_info_t given;
  memset(&given, 0, sizeof given);
  given.start_ip = table.module.start;
  given.end_ip = table.module.end;
  given.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  given.u.rti.segbase = table.module.eh_frame_hdr;
  given.u.rti.table_data = table.entries;
  given.u.rti.table_len = table.count; /* in words: an entry is two 32-bit offsets */
  int result = libunwind.search_unwind_table(space, address, &given, information, need_unwind_info, context);
  walk->no_info = result < 0;
  return result;
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

bool cunwind_library_is_private(void) { return libunwind.missing || libunwind.is_private; }

const char *cunwind_missing_library(void) { return libunwind.missing; }

/* Loads the library and looks up its functions. Returns NULL, or the reason for a failure. */
static const char *load(void) {
  void *shared = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!shared) {
    static char reason[256];
    const char *why = dlerror();
    snprintf(reason, sizeof reason, LIBRARY " cannot be loaded (Debian's package libunwind8 has it): %s",
             why ? why : "");
    return reason;
  }
  void *library = cunwind_load_private(LIBRARY, shared);
  libunwind.is_private = library != NULL;
  if (library)
    dlclose(shared);
  else
    library = shared;
  const struct {
    void *function;
    const char *name;
  } wanted[] = {
      {&libunwind.create_addr_space, NAME_OF(unw_create_addr_space)},
      {&libunwind.init_remote, NAME_OF(unw_init_remote)},
      {&libunwind.step, NAME_OF(unw_step)},
      {&libunwind.get_reg, NAME_OF(unw_get_reg)},
      {&libunwind.get_save_loc, NAME_OF(unw_get_save_loc)},
      {&libunwind.get_proc_info, NAME_OF(unw_get_proc_info)},
      {&libunwind.is_signal_frame, NAME_OF(unw_is_signal_frame)},
      {&libunwind.set_caching_policy, NAME_OF(unw_set_caching_policy)},
      {&libunwind.set_cache_size, NAME_OF(unw_set_cache_size)},
      {&libunwind.flush_cache, NAME_OF(unw_flush_cache)},
      {&libunwind.search_unwind_table, NAME_OF(UNW_OBJ(dwarf_search_unwind_table))},
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
  return NULL;
}

const char *cunwind_load(void) {
  /* After fork(2) a lock in the copy might be held by a thread of the parent, so the child loads another copy. */
  if (libunwind.owner != getpid()) {
    libunwind.missing = load();
    libunwind.owner = getpid();
  }
  return NULL;
}

static bool resume_at(struct walk *walk, struct cursor *cursor) {
  return libunwind.init_remote(native(cursor), walk->unwinder->address_space, walk) == 0;
}

/* Whether the instruction before CURSOR's address is a call. */
static bool follows_call(struct cursor *cursor) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  uint8_t code[UNWIND_CALL_BYTES];
  uint64_t pc, target;
  return cunwind_cursor_pc(cursor, &pc) && cunwind_read(unwinder, pc - sizeof code, code, sizeof code) &&
         unwinder->architecture->call_before(code, pc, &target) != UNWIND_CALL_NONE;
}

static void forget(struct unwinder *unwinder) { libunwind.flush_cache(unwinder->address_space, 0, 0); }

static int step(struct cursor *cursor, bool interrupted) {
  /* libunwind's cache is indexed by the address alone. The same address means different code for an interrupted thread
   * and for a return address: after a noreturn call another function begins, or a part with another frame. */
  bool ambiguous = interrupted && follows_call(cursor);
  if (ambiguous)
    forget(cursor->walk->unwinder);
  int result = libunwind.step(native(cursor));
  if (ambiguous)
    forget(cursor->walk->unwinder);
  return result;
}

/* On architectures with a link register, libunwind takes its number as the program counter's. */
static bool find_link(struct cursor *cursor, int number, uint64_t *value) {
  unw_save_loc_t place;
  if (libunwind.get_save_loc(native(cursor), number, &place) != 0)
    return false;
  return place.type == UNW_SLT_MEMORY
             ? cunwind_word(cursor->walk, place.u.addr, value)
             : place.type == UNW_SLT_REG && cunwind_register(cursor->walk->unwinder->architecture,
                                                             &cursor->walk->registers, place.u.regnum, value);
}

static bool find_register(struct cursor *cursor, int number, uint64_t *value) {
  const struct unwind_architecture *architecture = cursor->walk->unwinder->architecture;
  unw_word_t word;
  if (number == architecture->link)
    return find_link(cursor, number, value);
  int own_number = number == architecture->sp ? (int)UNW_REG_SP : number == architecture->pc ? (int)UNW_REG_IP : number;
  if (libunwind.get_reg(native(cursor), own_number, &word) != 0)
    return false;
  *value = word;
  return true;
}

static bool find_function(struct cursor *cursor, struct code_range *range) {
  unw_proc_info_t information;
  if (libunwind.get_proc_info(native(cursor), &information) != 0)
    return false;
  *range = (struct code_range){information.start_ip, information.end_ip, information.lsda != 0};
  return true;
}

static bool describes(struct walk *walk, uint64_t address) {
  unw_proc_info_t information;
  return find_proc_info(walk->unwinder->address_space, address, &information, 0, walk) == 0;
}

/* libunwind reports it for the interrupted frame on x86_64, and for the trampoline's frame before it on aarch64. */
static bool was_interrupted(struct cursor *before, struct cursor *now) {
#if defined(__x86_64__)
  (void)before;
  return libunwind.is_signal_frame(native(now)) > 0;
#else
  (void)now;
  return libunwind.is_signal_frame(native(before)) > 0;
#endif
}

static const struct cfi_steps steps = {
    .resume = resume_at,
    .step = step,
    .find_register = find_register,
    .find_function = find_function,
    .describes = describes,
    .was_interrupted = was_interrupted,
    .forget = forget,
};

const char *cunwind_use_libunwind(struct unwinder *unwinder, bool has_large_caches) {
  if (unwinder->architecture != cunwind_host())
    return "libunwind is there for the stacks of its own architecture alone";
  if (libunwind.missing)
    return NULL;
  unw_addr_space_t space = libunwind.create_addr_space(&accessors, 0);
  if (!space)
    return "libunwind cannot create an address space";
  /* Caching is off by default for such an address space (unw_set_caching_policy(3)) and gives a factor of five. */
  libunwind.set_caching_policy(space, UNW_CACHE_GLOBAL);
  if (has_large_caches)
    libunwind.set_cache_size(space, 1024, 0);
  unwinder->address_space = space;
  unwinder->library = &steps;
  unwinder->cfi = cunwind_rule_steps(unwinder);
  return NULL;
}

#else

const char *cunwind_load(void) { return "this processor architecture is not supported"; }

bool cunwind_library_is_private(void) { return true; }

const char *cunwind_missing_library(void) { return cunwind_load(); }

const char *cunwind_use_libunwind(struct unwinder *unwinder, bool has_large_caches) {
  (void)unwinder;
  (void)has_large_caches;
  return cunwind_load();
}

#endif
