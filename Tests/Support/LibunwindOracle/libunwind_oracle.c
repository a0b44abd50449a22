#define _GNU_SOURCE
#include "libunwind_oracle.h"

#include "cursor.h"
#include "eh_frame.h"
#include "frame_rule.h"
#include "unwind_tables.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <libunwind.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* libunwind's function names contain the architecture; its header defines macros for them. */
#define TEXT(name) #name
#define NAME_OF(name) TEXT(name)

#if defined(__x86_64__)
#define LIBRARY "libunwind-x86_64.so.8"
enum { MACHINE = EM_X86_64 };
#else
#define LIBRARY "libunwind-aarch64.so.8"
enum { MACHINE = EM_AARCH64 };
#endif

static struct {
  __typeof__(&unw_create_addr_space) create_addr_space;
  __typeof__(&unw_init_remote) init_remote;
  __typeof__(&unw_step) step;
  __typeof__(&unw_get_reg) get_reg;
  /* Internal to libunwind but exported: binary search in a module's .eh_frame_hdr, and decoding of the entry. */
  int (*search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int, void *);
} libunwind;

/* One unwinding. */
struct stack {
  const struct unwind_process *process;
  const struct stack_copy *copy;
  bool is_guess; /* a frame had no entry */
};

static bool read_word(struct stack *stack, uint64_t address, uint64_t *value) {
  const struct stack_copy *copy = stack->copy;
  uint64_t offset = address - copy->stack_start, own = address - copy->own_start;
  if (offset < copy->stack_bytes && copy->stack_bytes - offset >= sizeof *value) {
    memcpy(value, copy->stack + offset, sizeof *value);
    return true;
  }
  if (own < copy->own_bytes && copy->own_bytes - own >= sizeof *value) {
    memcpy(value, copy->stack + copy->stack_bytes + own, sizeof *value);
    return true;
  }
  return address >= 4096 && stack->process->read(stack->process->context, address, value, sizeof *value);
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
  struct stack *stack = context;
  uint64_t word;
  if (write || !cunwind_register(cunwind_host(), &stack->copy->registers, number, &word))
    return -UNW_EBADREG;
  *value = word;
  return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write, void *context) {
  (void)space, (void)number, (void)value, (void)write, (void)context;
  return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *context) {
  (void)space, (void)cursor, (void)context;
  return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t address, char *buffer, size_t length, unw_word_t *offset,
                         void *context) {
  (void)space, (void)address, (void)buffer, (void)length, (void)offset, (void)context;
  return -UNW_ENOINFO;
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *address, void *context) {
  (void)space, (void)address, (void)context;
  return -UNW_ENOINFO;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *information, void *context) {
  (void)space, (void)information, (void)context;
}

static int find_proc_info(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *information,
                          int need_unwind_info, void *context) {
  struct stack *stack = context;
  struct unwind_module module;
  uint32_t head[3]; /* of .eh_frame_hdr: encodings, the address of .eh_frame, the number of entries */
  int result = -UNW_ENOINFO;
  if (stack->process->find_module(stack->process->context, address, &module) && module.eh_frame_hdr != 0 &&
      stack->process->read(stack->process->context, module.eh_frame_hdr, head, sizeof head) && head[0] == 0x3b031b01) {
    unw_dyn_info_t given;
    memset(&given, 0, sizeof given);
    given.start_ip = module.start;
    given.end_ip = module.end;
    given.format = UNW_INFO_FORMAT_REMOTE_TABLE;
    given.u.rti.segbase = module.eh_frame_hdr;
    given.u.rti.table_data = module.eh_frame_hdr + sizeof head;
    given.u.rti.table_len = head[2]; /* in words: an entry is two 32-bit offsets */
    result = libunwind.search_unwind_table(space, address, &given, information, need_unwind_info, context);
  }
  stack->is_guess |= result < 0;
  return result;
}

static unw_addr_space_t space;

const char *oracle_missing(const char *architecture) {
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
  const struct {
    void *function;
    const char *name;
  } wanted[] = {
      {&libunwind.create_addr_space, NAME_OF(unw_create_addr_space)},
      {&libunwind.init_remote, NAME_OF(unw_init_remote)},
      {&libunwind.step, NAME_OF(unw_step)},
      {&libunwind.get_reg, NAME_OF(unw_get_reg)},
      {&libunwind.search_unwind_table, NAME_OF(UNW_OBJ(dwarf_search_unwind_table))},
  };
  if (strcmp(cunwind_host()->name, architecture) != 0)
    return "libunwind is for another architecture";
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  for (size_t index = 0; library && index < sizeof wanted / sizeof wanted[0]; index++) {
    void *symbol = dlsym(library, wanted[index].name);
    if (!symbol)
      return "libunwind lacks a function";
    memcpy(wanted[index].function, &symbol, sizeof symbol);
  }
  if (library && !space)
    space = libunwind.create_addr_space(&accessors, 0);
  return space ? NULL : "libunwind is not installed";
}

int oracle_unwind(const struct unwind_process *process, const struct stack_copy *copy, struct oracle_frame *frames,
                  int max) {
  struct stack stack = {.process = process, .copy = copy};
  unw_cursor_t cursor;
  unw_word_t pc, sp;
  int count = 0;
  if (libunwind.init_remote(&cursor, space, &stack) != 0)
    return 0;
  while (count < max && libunwind.get_reg(&cursor, UNW_REG_IP, &pc) == 0 && pc != 0 &&
         libunwind.get_reg(&cursor, UNW_REG_SP, &sp) == 0) {
    frames[count++] = (struct oracle_frame){pc, sp};
    if (libunwind.step(&cursor) <= 0 || stack.is_guess)
      break;
  }
  return count;
}

/* An ELF file as the loader maps it. */
struct image {
  uint8_t *bytes;
  uint64_t size, eh_frame_hdr;
};

static bool read_image(void *context, uint64_t address, void *destination, size_t length) {
  const struct image *image = context;
  uint64_t offset = address - (uint64_t)image->bytes;
  if (offset >= image->size || image->size - offset < length)
    return false;
  memcpy(destination, image->bytes + offset, length);
  return true;
}

static bool find_image(void *context, uint64_t address, struct unwind_module *module) {
  const struct image *image = context;
  uint64_t start = (uint64_t)image->bytes;
  *module = (struct unwind_module){start, start + image->size, image->eh_frame_hdr};
  return address - start < image->size;
}

/* Maps the segments of FILE, which has LENGTH bytes. */
static bool map_segments(const uint8_t *file, size_t length, struct image *image) {
  Elf64_Ehdr head;
  Elf64_Phdr segment;
  if (length < sizeof head)
    return false;
  memcpy(&head, file, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != MACHINE ||
      head.e_phoff + head.e_phnum * sizeof segment > length)
    return false;
  for (int pass = 0; pass < 2; pass++) {
    for (int index = 0; index < head.e_phnum; index++) {
      memcpy(&segment, file + head.e_phoff + (size_t)index * sizeof segment, sizeof segment);
      uint64_t end = segment.p_vaddr + segment.p_memsz;
      if (segment.p_type == PT_LOAD && pass == 0 && end > image->size)
        image->size = end;
      if (segment.p_type == PT_LOAD && pass == 1 && segment.p_offset + segment.p_filesz <= length)
        memcpy(image->bytes + segment.p_vaddr, file + segment.p_offset, segment.p_filesz);
      if (segment.p_type == PT_GNU_EH_FRAME && pass == 1)
        image->eh_frame_hdr = (uint64_t)image->bytes + segment.p_vaddr;
    }
    if (image->size == 0 || image->size > UINT64_C(1) << 32)
      return false;
    if (pass == 0)
      image->bytes =
          mmap(NULL, image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image->bytes == MAP_FAILED)
      return false;
  }
  return image->eh_frame_hdr != 0;
}

static bool map_image(const char *path, struct image *image) {
  struct stat information;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  size_t length = fstat(file, &information) == 0 ? (size_t)information.st_size : 0;
  uint8_t *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (bytes == MAP_FAILED)
    return false;
  *image = (struct image){0};
  bool is_mapped = map_segments(bytes, length, image);
  munmap(bytes, length);
  return is_mapped;
}

/* The made-up stack. Its words point into the stack, and registers to its middle. */
enum { WORDS = 1 << 14 };

struct comparison {
  struct unwind_process process;
  struct unwinder *unwinder;
  struct stack_copy copy;
  struct oracle_rows *rows;
};

/* Steps from the row of ADDRESS by both unwinders, and compares all registers. */
static void compare_row(struct comparison *comparison, uint64_t address) {
  const struct unwind_architecture *architecture = cunwind_host();
  struct oracle_rows *rows = comparison->rows;
  struct stack stack = {.process = &comparison->process, .copy = &comparison->copy};
  struct walk walk = {.unwinder = comparison->unwinder, .copy = &comparison->copy};
  struct cursor cursor;
  unw_cursor_t other;
  unw_word_t word;
  uint64_t value;
  rows->rows++;
  const struct frame_rule *rule = cunwind_rule_at(comparison->unwinder, address);
  bool gives_sp = false;
  if (!rule) {
    rows->refused++;
    rows->refused_here = address;
    return;
  }
  /* libunwind sets the stack pointer to the canonical frame address, even if the row has another rule. */
  for (int index = 0; index < rule->count; index++)
    gives_sp |= rule->registers[index].number == architecture->sp;
  comparison->copy.registers.values[architecture->pc] = address;
  walk.registers = comparison->copy.registers;
  bool leads = cunwind_cursor_resume(&walk, &cursor) && cunwind_cursor_step(&cursor) > 0;
  if (!leads || libunwind.init_remote(&other, space, &stack) != 0 || libunwind.step(&other) < 0)
    return;
  rows->compared++;
  for (int number = 0; number < architecture->registers; number++) {
    if (number == architecture->sp && gives_sp)
      continue;
    bool is_pc = number == architecture->pc || number == architecture->link;
    int other_number = is_pc ? (int)UNW_REG_IP : number == architecture->sp ? (int)UNW_REG_SP : number;
    bool is_known = is_pc || cunwind_cursor_register(&cursor, number, &value);
    if (is_pc)
      value = cunwind_cursor_pc(&cursor);
    bool is_known_there = libunwind.get_reg(&other, other_number, &word) == 0;
    if (is_known != is_known_there || (is_known && value != word)) {
      rows->different++;
      rows->different_here = address;
      return;
    }
  }
}

/* Skips an instruction of a table entry. Returns the distance to the next row in the table's unit; 0: the same row. */
static uint64_t skip_instruction(struct entry_reader *reader) {
  uint8_t instruction = (uint8_t)cunwind_take(reader, 1);
  if (instruction >= 0x40) { /* advance_loc, offset, restore */
    if (instruction >= 0x80 && instruction < 0xc0)
      cunwind_take_leb128(reader);
    return instruction < 0x80 ? instruction & 0x3f : 0;
  }
  if (instruction >= 0x02 && instruction <= 0x04) /* advance_loc1, advance_loc2, advance_loc4 */
    return cunwind_take(reader, (size_t)1 << (instruction - 2));
  static const char numbers[0x40] = {[0x05] = 2, 1, 1, 1, 2, [0x0c] = 2, 1, 1, 0, 1, 2, 2, 1, 2, 2, 1, [0x2e] = 1, 2};
  for (int count = numbers[instruction]; count > 0; count--)
    cunwind_take_leb128(reader);
  if (instruction == 0x0f || instruction == 0x10 || instruction == 0x16) { /* expressions */
    uint64_t length = cunwind_take_leb128(reader);
    reader->at += length;
  }
  return 0;
}

static void compare_function(struct comparison *comparison, uint64_t address) {
  struct entry_format format;
  struct entry_reader reader;
  struct code_range range;
  uint64_t description, end, at = address;
  if (!cunwind_table_entry(comparison->unwinder, address, &description, &range) ||
      !cunwind_open_fde(comparison->unwinder, description, &format, &reader, &end))
    return;
  comparison->rows->functions++;
  compare_row(comparison, at);
  while (reader.at < end && !reader.failed) {
    uint64_t distance = skip_instruction(&reader) * format.code_unit;
    at += distance;
    if (distance > 0 && at < range.end)
      compare_row(comparison, at);
  }
}

static void compare_functions(struct image *image, uint32_t stride, struct oracle_rows *rows) {
  const struct unwind_architecture *architecture = cunwind_host();
  static uint64_t words[WORDS];
  void *memory = aligned_alloc(64, (cunwind_bytes() + 63) / 64 * 64);
  struct comparison comparison = {.process = {read_image, find_image, image}, .rows = rows};
  uint64_t start = (uint64_t)words, random = 4711;
  int32_t entry[2];
  uint32_t count;
  memset(memory, 0, cunwind_bytes());
  comparison.unwinder = cunwind_create(memory, architecture, comparison.process);
  for (int index = 0; index < WORDS; index++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    words[index] = start + sizeof words / 4 + (random >> 33) % (sizeof words / 2);
  }
  struct stack_copy *copy = &comparison.copy;
  copy->stack = (const uint8_t *)words;
  copy->stack_start = start;
  copy->stack_bytes = sizeof words;
  copy->stack_end = start + sizeof words;
  for (int number = 0; number < architecture->registers; number++)
    copy->registers.values[number] = start + sizeof words / 2 + 64 * (uint64_t)number;
  copy->registers.known = (UINT64_C(1) << architecture->registers) - 1;
  if (!read_image(image, image->eh_frame_hdr + 8, &count, sizeof count))
    count = 0;
  for (uint64_t index = 0; index < count; index += stride)
    if (read_image(image, image->eh_frame_hdr + 12 + index * sizeof entry, entry, sizeof entry))
      compare_function(&comparison, image->eh_frame_hdr + (uint64_t)(int64_t)entry[0]);
  free(memory);
}

bool oracle_compare_rows(const char *path, uint32_t stride, struct oracle_rows *rows) {
  struct image image;
  if (!map_image(path, &image))
    return false;
  compare_functions(&image, stride, rows);
  munmap(image.bytes, image.size);
  return true;
}
