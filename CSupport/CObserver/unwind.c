#define _GNU_SOURCE
#include "observer_unwind.h"

#include "frame_walk.h"
#include "observer_arch.h"
#include "observer_clock.h"
#include "observer_memory.h"
#include "observer_module.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <dlfcn.h>
#include <libunwind.h>
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

static struct {
  __typeof__(&unw_create_addr_space) create_addr_space;
  __typeof__(&unw_init_remote) init_remote;
  __typeof__(&unw_step) step;
  __typeof__(&unw_get_reg) get_reg;
  __typeof__(&unw_get_proc_info) get_proc_info;
  __typeof__(&unw_is_signal_frame) is_signal_frame;
  __typeof__(&unw_set_caching_policy) set_caching_policy;
  __typeof__(&unw_set_cache_size) set_cache_size;
  __typeof__(&unw_flush_cache) flush_cache;
  /* Internal to libunwind but exported: binary search in a module's .eh_frame_hdr, and decoding of what it finds. */
  int (*search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int, void *);
} libunwind;

static unw_addr_space_t address_space;

/* Memory of the process outside the copy, read a page at a time because a frame that is met for the first time costs
 * some eighty reads of its unwind information. */
enum { PAGE_BYTES = 4096, PAGES = 16 };
struct page {
  uint64_t address; /* 0: empty */
  uint8_t bytes[PAGE_BYTES];
};
static struct page pages[PAGES];

/* So far below the copy memory counts as stack. */
#define BELOW_STACK_BYTES (UINT64_C(64) << 10)

/* One unwinding. */
struct walk {
  const struct observer_copy *copy;
  struct observer_registers registers; /* those of the copy, and a frame pointer that was recovered */
  int missing;      /* the last register that was asked for and is not known; -1 if none was */
  bool beyond_copy; /* a part of the stack was asked for that the copy lacks */
  bool unreadable;  /* memory was asked for that cannot be read */
  bool no_module;   /* an address is in no module */
  bool no_info;     /* a module has no unwind information for an address */
  uint64_t last_read; /* where the stack was read last; 0: not since this was set to 0 */
};

static const uint8_t *page_at(uint64_t address) {
  struct page *page = &pages[address / PAGE_BYTES % PAGES];
  if (page->address == address)
    return page->bytes;
  page->address = 0;
  if (!observer_memory_read(address, page->bytes, PAGE_BYTES))
    return NULL;
  page->address = address;
  return page->bytes;
}

static bool read_process(uint64_t address, void *destination, size_t length) {
  uint8_t *to = destination;
  while (length > 0) {
    uint64_t offset = address % PAGE_BYTES;
    size_t here = PAGE_BYTES - offset < length ? (size_t)(PAGE_BYTES - offset) : length;
    const uint8_t *page = address < PAGE_BYTES ? NULL : page_at(address - offset);
    if (!page)
      return false;
    memcpy(to, page + offset, here);
    to += here;
    address += here;
    length -= here;
  }
  return true;
}

static bool read_word(struct walk *walk, uint64_t address, uint64_t *value) {
  const struct observer_copy *copy = walk->copy;
  uint64_t offset = address - copy->stack_start;
  if (offset < copy->stack_bytes && copy->stack_bytes - offset >= sizeof *value) {
    memcpy(value, copy->stack + offset, sizeof *value);
    walk->last_read = address;
    return true;
  }
  /* The thread's own stack, where it is on another one. */
  offset = address - copy->own_start;
  if (offset < copy->own_bytes && copy->own_bytes - offset >= sizeof *value) {
    memcpy(value, copy->stack + copy->stack_bytes + offset, sizeof *value);
    walk->last_read = address;
    return true;
  }
  if (address >= copy->own_low && address < copy->own_end) {
    walk->beyond_copy = true;
    return false;
  }
  /* The stack beyond a truncated copy is alive and may have changed since: an answer from there would be a guess. Where the
   * stack's end is not known, a module may lie where it could be. */
  struct observer_module module;
  if (copy->truncated && address >= copy->stack_start && address < copy->stack_end &&
      !observer_module_find(address, &module)) {
    walk->beyond_copy = true;
    return false;
  }
  /* Below the copy is what the thread has come to use since: the value that was there is gone. */
  if (address < copy->stack_start && copy->stack_start - address < BELOW_STACK_BYTES) {
    walk->unreadable = true;
    return false;
  }
  if (!read_process(address, value, sizeof *value)) {
    walk->unreadable = true;
    return false;
  }
  return true;
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write, void *context) {
  (void)space;
  uint64_t word;
  if (write || !read_word(context, address, &word))
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
      !read_process(module.eh_frame_hdr, &header, sizeof header) || header.version != 1 ||
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
  int result = libunwind.search_unwind_table(space, address, &table, information, need_unwind_info, context);
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

const char *observer_unwind_start(void) {
  if (address_space)
    return NULL;
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return LIBRARY " cannot be loaded (Debian's package libunwind8 has it)";
  const struct {
    void *function;
    const char *name;
  } wanted[] = {
      {&libunwind.create_addr_space, NAME_OF(unw_create_addr_space)},
      {&libunwind.init_remote, NAME_OF(unw_init_remote)},
      {&libunwind.step, NAME_OF(unw_step)},
      {&libunwind.get_reg, NAME_OF(unw_get_reg)},
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
  unw_addr_space_t space = libunwind.create_addr_space(&accessors, 0);
  if (!space) {
    dlclose(library);
    return "libunwind cannot create an address space";
  }
  /* Off by default for an address space made this way (unw_set_caching_policy(3)), and worth a factor of five. */
  libunwind.set_caching_policy(space, UNW_CACHE_GLOBAL);
  libunwind.set_cache_size(space, 1024, 0);
  address_space = space;
  return NULL;
}

void observer_unwind_forget(void) {
  observer_module_forget();
  if (address_space)
    libunwind.flush_cache(address_space, 0, 0);
}

/* Forgets memory that was read: what a thread may write to must be read anew for every stack. */
static void forget_pages(void) {
  for (int index = 0; index < PAGES; index++)
    pages[index].address = 0;
}

static enum observer_stack_end why_it_stopped(const struct walk *walk) {
  if (walk->beyond_copy)
    return OBSERVER_END_COPY;
  if (walk->unreadable)
    return OBSERVER_END_UNREADABLE;
  if (walk->missing >= 0)
    return OBSERVER_END_NO_REGISTER;
  return walk->no_module ? OBSERVER_END_NO_MODULE : OBSERVER_END_NO_UNWIND_INFO;
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
  return libunwind.get_reg(cursor, UNW_REG_IP, &pc) == 0 && read_process(pc - sizeof code, code, sizeof code) &&
         observer_arch_call_before(code, pc, &target) != OBSERVER_CALL_NONE;
}

/* Goes from CURSOR's frame, which was INTERRUPTED by a signal or made a call, to its caller's. Returns 1, or 0 at the
 * outermost frame, or a negative number when it cannot: WALK says why. */
static int step(struct walk *walk, unw_cursor_t *cursor, bool interrupted) {
  clear(walk);
  /* libunwind's memory goes by the address alone, which means one thing where a thread was interrupted and another
   * where a call returns to: after the call of a function that does not return there is another function, or a part
   * with another frame. */
  bool ambiguous = interrupted && follows_call(cursor);
  if (ambiguous)
    libunwind.flush_cache(address_space, 0, 0);
  int result = libunwind.step(cursor);
  if (ambiguous)
    libunwind.flush_cache(address_space, 0, 0);
  /* Where unwind information is not enough libunwind guesses, and takes a guess that fails for the end. */
  if (result == 0 && (walk->beyond_copy || walk->missing >= 0 || walk->no_info || walk->no_module || walk->unreadable))
    return -UNW_EBADFRAME;
  return result;
}

/* Whether NOW's frame, to which a step led from BEFORE's, was interrupted by a signal and made no call. libunwind tells
 * it of the interrupted frame on x86_64, and of the frame of the kernel's trampoline, from which the step leads to it,
 * on aarch64. */
static bool was_interrupted(unw_cursor_t *before, unw_cursor_t *now) {
#if defined(__x86_64__)
  (void)before;
  return libunwind.is_signal_frame(now) > 0;
#else
  (void)now;
  return libunwind.is_signal_frame(before) > 0;
#endif
}

/* A blocked thread that is read from outside gives its stack pointer and program counter only. That is enough for frames
 * that are described relative to the stack pointer; the first one that is not needs the frame pointer. Its value is found
 * on the stack: it is the address of a frame record (saved frame pointer, return address), whose return address follows a
 * call of the function that the frame belongs to. */

/* What kind of call ends at RETURN_ADDRESS, and whether it is one of the function that begins at FUNCTION: directly or
 * through a linkage stub. */
static enum observer_call_kind call_before(uint64_t return_address, uint64_t function, bool *of_function) {
  uint8_t code[OBSERVER_CALL_BYTES];
  uint64_t target = 0;
  struct observer_module module;
  *of_function = false;
  if (!observer_module_find(return_address, &module) ||
      !read_process(return_address - sizeof code, code, sizeof code))
    return OBSERVER_CALL_NONE;
  enum observer_call_kind kind = observer_arch_call_before(code, return_address, &target);
  /* The kernel calls a signal's handler, as through a pointer. */
  uint8_t trampoline[OBSERVER_SIGNAL_RETURN_BYTES];
  if (kind == OBSERVER_CALL_NONE && read_process(return_address, trampoline, sizeof trampoline) &&
      observer_arch_signal_return(trampoline))
    return OBSERVER_CALL_INDIRECT;
  if (kind != OBSERVER_CALL_DIRECT)
    return kind;
  uint8_t stub[OBSERVER_PROLOGUE_BYTES];
  uint64_t slot, resolved;
  *of_function = target == function || (read_process(target, stub, sizeof stub) &&
                                        observer_arch_stub(stub, target, &slot) &&
                                        read_process(slot, &resolved, sizeof resolved) && resolved == function);
  return kind;
}

/* Whether a frame pointer of RECORD leads from CURSOR's frame to the outermost one, every return address on the way
 * following a call. */
static bool leads_out(struct walk *walk, unw_cursor_t cursor, bool interrupted, uint64_t record) {
  struct observer_registers before = walk->registers;
  int number = observer_arch_frame_pointer();
  walk->registers.values[number] = record;
  walk->registers.known |= UINT64_C(1) << number;
  bool leads = false;
  for (int depth = 0; depth < OBSERVER_FRAMES_MAX; depth++) {
    unw_cursor_t callee = cursor;
    int result = step(walk, &cursor, interrupted);
    unw_word_t pc = 0;
    bool of_function;
    if (result < 0)
      break;
    if (result == 0 || libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0) {
      leads = result == 0 || pc == 0;
      break;
    }
    interrupted = was_interrupted(&callee, &cursor);
    if (!interrupted && call_before(observer_arch_code_address(pc), 0, &of_function) == OBSERVER_CALL_NONE)
      break;
  }
  walk->registers = before;
  return leads;
}

/* Finds the frame pointer of CURSOR's frame, which WALK does not know. Returns false when there is none, or more than one
 * that could be it: a stack that ends is better than one that is invented. */
static bool find_frame_pointer(struct walk *walk, const unw_cursor_t *cursor, bool interrupted, uint64_t *found) {
  const struct observer_copy *copy = walk->copy;
  unw_cursor_t here = *cursor;
  unw_proc_info_t function;
  unw_word_t sp = 0;
  if (libunwind.get_reg(&here, UNW_REG_SP, &sp) != 0 || libunwind.get_proc_info(&here, &function) != 0 ||
      sp < copy->stack_start)
    return false;
  uint64_t end = copy->stack_start + copy->stack_bytes;

  /* Where the function's beginning tells how large its frame is, there is one place only to look at. */
  uint8_t code[OBSERVER_PROLOGUE_BYTES];
  uint64_t frame_bytes, record, return_address;
  bool of_function;
  if (read_process(function.start_ip, code, sizeof code) && observer_arch_frame_bytes(code, &frame_bytes)) {
    record = sp + frame_bytes;
    if (record % 16 == 0 && record + 16 <= end && read_word(walk, record + 8, &return_address)) {
      enum observer_call_kind kind =
          call_before(observer_arch_code_address(return_address), function.start_ip, &of_function);
      if ((of_function || kind == OBSERVER_CALL_INDIRECT) && leads_out(walk, *cursor, interrupted, record)) {
        *found = record;
        return true;
      }
    }
  }

  /* Otherwise every place is looked at. What earlier, deeper calls left behind looks just like a frame record, so it must
   * be the only one that a call of this very function made, or, where there is none of these, that an indirect call did. */
  int direct = 0, indirect = 0;
  uint64_t through_pointer = 0;
  for (record = (sp + 15) & ~UINT64_C(15); record + 16 <= end && direct < 2; record += 16) {
    if (!read_word(walk, record + 8, &return_address))
      continue;
    enum observer_call_kind kind =
        call_before(observer_arch_code_address(return_address), function.start_ip, &of_function);
    if ((!of_function && kind != OBSERVER_CALL_INDIRECT) || !leads_out(walk, *cursor, interrupted, record))
      continue;
    if (of_function) {
      direct++;
      *found = record;
    } else {
      indirect++;
      through_pointer = record;
    }
  }
  if (direct == 0 && indirect == 1)
    *found = through_pointer;
  return direct == 1 || (direct == 0 && indirect == 1);
}

/* The compiler's unwinder hands an exception over by writing what the function that handles it had saved over what its
 * own caller had (libgcc, uw_install_context): registers one by one, then the return address. A thread that is
 * interrupted just then seems to be in a mixture of both. Unwinders are known by their saving the register that results
 * and exceptions are passed in, which no other function does, and are innermost but for what they call. */
enum { HANDING_OVER_DEPTH = 3 };

/* What is thought of the frame pointer on the way outwards. */
enum trust {
  TRUST_ALL = 0,
  TRUST_NO_FRAME_POINTER = 1, /* it may be that of the function that handles an exception */
  TRUST_NOTHING = 2,          /* it is; or the return address is */
};

/* Where in the copied stack CURSOR's frame finds register NUMBER; 0: not there. */
static uint64_t saved_at(struct walk *walk, unw_cursor_t *cursor, unw_regnum_t number) {
  unw_word_t value;
  walk->last_read = 0;
  return libunwind.get_reg(cursor, number, &value) == 0 ? walk->last_read : 0;
}

/* What is thought of CURSOR's frame, to which a step led from CALLEE's, the frame number DEPTH from 1, which was
 * thought of as BEFORE says. */
static enum trust trust_after(struct walk *walk, unw_cursor_t *callee, unw_cursor_t *cursor, enum trust before,
                              uint32_t depth) {
  unw_word_t sp, frame_pointer, caller_sp, return_address;
  unw_proc_info_t function;
  int number = observer_arch_frame_pointer();
  bool unwinder = before == TRUST_ALL && depth <= HANDING_OVER_DEPTH &&
                  saved_at(walk, cursor, observer_arch_result_register()) != 0;
  if (before == TRUST_ALL && !unwinder)
    return TRUST_ALL;
  if (libunwind.get_reg(callee, UNW_REG_SP, &sp) != 0 || libunwind.get_reg(callee, number, &frame_pointer) != 0 ||
      libunwind.get_reg(cursor, UNW_REG_SP, &caller_sp) != 0 ||
      libunwind.get_reg(cursor, UNW_REG_IP, &return_address) != 0 || libunwind.get_proc_info(callee, &function) != 0)
    return TRUST_NOTHING;
  return_address = observer_arch_code_address(return_address);
  if (unwinder)
    return frame_called(read_process, return_address, function.start_ip) ? TRUST_NO_FRAME_POINTER : TRUST_NOTHING;
  if (frame_pointer >= sp && frame_pointer < caller_sp)
    return frame_pointer_fits(read_process, function.start_ip, sp, frame_pointer, return_address) ? TRUST_ALL
                                                                                                  : TRUST_NOTHING;
  uint64_t at = saved_at(walk, cursor, number);
  return at >= sp && at < caller_sp ? TRUST_ALL : TRUST_NO_FRAME_POINTER;
}

void observer_unwind(const struct observer_copy *copy, struct observer_stack *stack) {
  uint64_t began = observer_clock_ns();
  struct walk walk = {.copy = copy, .registers = copy->registers};
  unw_cursor_t cursor;
  stack->count = 0;
  stack->end = OBSERVER_END_FAILED;
  forget_pages();
  if (!address_space || libunwind.init_remote(&cursor, address_space, &walk) != 0)
    return;
  enum observer_frame_kind kind = OBSERVER_PROGRAM_COUNTER;
  uint64_t last_sp = 0;
  enum trust trust = TRUST_ALL;
  for (;;) {
    unw_word_t pc = 0, sp = 0;
    if (libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 || libunwind.get_reg(&cursor, UNW_REG_SP, &sp) != 0)
      break;
    pc = observer_arch_code_address(pc);
    if (pc == 0) {
      stack->end = OBSERVER_END_OUTERMOST;
      break;
    }
    struct observer_module module;
    if (stack->count > 0 && !observer_module_find(pc, &module)) {
      stack->end = OBSERVER_END_NO_MODULE;
      break;
    }
    if (stack->count == OBSERVER_FRAMES_MAX) {
      stack->end = OBSERVER_END_FRAME_LIMIT;
      break;
    }
    if (stack->count > 1 && sp <= last_sp && kind == OBSERVER_RETURN_ADDRESS) {
      stack->end = OBSERVER_END_NO_PROGRESS;
      break;
    }
    last_sp = sp;
    stack->frames[stack->count++] = (struct observer_frame){pc, kind};
    unw_cursor_t before = cursor;
    bool interrupted = kind == OBSERVER_PROGRAM_COUNTER;
    int result = step(&walk, &cursor, interrupted);
    int frame_pointer = observer_arch_frame_pointer();
    uint64_t record;
    if (result < 0 && walk.missing == frame_pointer) {
      if (find_frame_pointer(&walk, &before, interrupted, &record)) {
        walk.registers.values[frame_pointer] = record;
        walk.registers.known |= UINT64_C(1) << frame_pointer;
      }
      cursor = before;
      result = step(&walk, &cursor, interrupted);
    }
    if (result <= 0) {
      stack->end = result == 0 ? OBSERVER_END_OUTERMOST : why_it_stopped(&walk);
      break;
    }
    kind = OBSERVER_RETURN_ADDRESS;
    if (was_interrupted(&before, &cursor)) {
      /* Nor is the trampoline in between returned to after a call. */
      stack->frames[stack->count - 1].kind = kind = OBSERVER_PROGRAM_COUNTER;
      trust = TRUST_ALL;
    } else {
      trust = trust_after(&walk, &before, &cursor, trust, stack->count);
    }
    if (trust == TRUST_NOTHING) {
      stack->end = OBSERVER_END_FAILED;
      break;
    }
  }
  stack->unwind_ns = observer_clock_ns() - began;
}

#else

const char *observer_unwind_start(void) { return "this processor architecture is not supported"; }

void observer_unwind_forget(void) {}

void observer_unwind(const struct observer_copy *copy, struct observer_stack *stack) {
  (void)copy;
  stack->count = 0;
  stack->end = OBSERVER_END_FAILED;
}

#endif
