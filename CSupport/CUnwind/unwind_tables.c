#include "unwind_tables.h"

#include "process_memory.h"

#include <string.h>

/* The head of .eh_frame_hdr as linkers write it: Linux Standard Base Core, "Exception Frames". Other encodings are
 * legal and never seen: they count as no unwind information. */
struct eh_frame_hdr {
  uint8_t version;
  uint8_t eh_frame_ptr_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  int32_t eh_frame_ptr;
  uint32_t count;
};
enum { DW_EH_PE_udata4 = 0x03, DW_EH_PE_pcrel_sdata4 = 0x1b, DW_EH_PE_datarel_sdata4 = 0x3b };

/* Sizes of encoded addresses, by the low four bits of the encoding; and the encoding of none. */
enum { DW_EH_PE_format = 0x0f, DW_EH_PE_omit = 0xff };

/* An entry of the table behind it, by which functions are sorted: offsets from the head. */
struct eh_frame_entry {
  int32_t function, description;
};

/* Answers that are remembered, and the longest augmentation of a CIE that is read. */
enum { REMEMBERED = 256, AUGMENTATION_MAX = 16 };

struct unwind_tables {
  struct {
    uint64_t address; /* 0: empty */
    struct code_range range;
  } known[REMEMBERED];
};

size_t cunwind_tables_bytes(void) { return sizeof(struct unwind_tables); }

void cunwind_tables_forget(struct unwinder *unwinder) { memset(unwinder->tables, 0, sizeof *unwinder->tables); }

bool cunwind_find_table(struct unwinder *unwinder, uint64_t address, struct unwind_table *table, bool *in_module) {
  struct eh_frame_hdr header;
  struct unwind_module *module = &table->module;
  *in_module = cunwind_find_module(unwinder, address, module);
  /* The bounds are checked here because libunwind asserts them. */
  if (!*in_module || module->eh_frame_hdr == 0 || address < module->start || address >= module->end ||
      !cunwind_read(unwinder, module->eh_frame_hdr, &header, sizeof header) || header.version != 1 ||
      header.eh_frame_ptr_encoding != DW_EH_PE_pcrel_sdata4 || header.count_encoding != DW_EH_PE_udata4 ||
      header.table_encoding != DW_EH_PE_datarel_sdata4 || header.count == 0)
    return false;
  table->entries = module->eh_frame_hdr + sizeof header;
  table->count = header.count;
  return true;
}

static bool read_entry(struct unwinder *unwinder, const struct unwind_table *table, uint32_t index,
                       struct eh_frame_entry *entry) {
  return cunwind_read(unwinder, table->entries + (uint64_t)index * sizeof *entry, entry, sizeof *entry);
}

static uint64_t function_of(const struct unwind_table *table, struct eh_frame_entry entry) {
  return table->module.eh_frame_hdr + (uint64_t)(int64_t)entry.function;
}

/* Finds the index of TABLE's first function that begins behind ADDRESS; its count if none does. */
static bool first_behind(struct unwinder *unwinder, const struct unwind_table *table, uint64_t address,
                         uint32_t *index) {
  struct eh_frame_entry entry;
  uint32_t low = 0, high = table->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (!read_entry(unwinder, table, middle, &entry))
      return false;
    if (function_of(table, entry) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  *index = low;
  return true;
}

/* The part of .eh_frame that is read: Linux Standard Base Core, "The .eh_frame section". */
struct reader {
  struct unwinder *unwinder;
  uint64_t at;
  bool failed;
};

static uint64_t take(struct reader *reader, size_t bytes) {
  uint64_t value = 0;
  if (!cunwind_read(reader->unwinder, reader->at, &value, bytes))
    reader->failed = true;
  reader->at += bytes;
  return value;
}

static uint64_t take_leb128(struct reader *reader) {
  uint64_t value = 0, byte;
  int shift = 0;
  do {
    byte = take(reader, 1);
    if (shift < 64)
      value |= (byte & 0x7f) << shift;
    shift += 7;
  } while ((byte & 0x80) != 0 && !reader->failed);
  return value;
}

/* Begins to read the entry of .eh_frame at AT, behind its length; it reaches up to *END. */
static struct reader entry_at(struct unwinder *unwinder, uint64_t at, uint64_t *end) {
  struct reader reader = {.unwinder = unwinder, .at = at};
  uint64_t length = take(&reader, 4);
  if (length == UINT32_MAX)
    length = take(&reader, 8);
  *end = reader.at + length;
  return reader;
}

static size_t encoded_bytes(uint8_t encoding) {
  switch (encoding & DW_EH_PE_format) {
  case 0x02: /* udata2, sdata2 */
  case 0x0a:
    return 2;
  case 0x03: /* udata4, sdata4 */
  case 0x0b:
    return 4;
  case 0x00: /* an address, udata8, sdata8 */
  case 0x04:
  case 0x0c:
    return 8;
  default:
    return 0;
  }
}

/* What a CIE says of its FDEs: how their addresses are encoded, the unit in which their rows advance, the column of the
 * return address, and from where to where the instructions of their first row are. */
struct encodings {
  uint8_t function, lsda;
  bool has_augmentation;
  uint64_t code_unit, return_column;
  uint64_t start, end;
};

static bool read_cie(struct unwinder *unwinder, uint64_t at, struct encodings *encodings) {
  *encodings = (struct encodings){.lsda = DW_EH_PE_omit};
  struct reader reader = entry_at(unwinder, at, &encodings->end);
  char augmentation[AUGMENTATION_MAX];
  size_t length = 0;
  take(&reader, 4); /* 0: it is a CIE */
  uint8_t version = (uint8_t)take(&reader, 1);
  do {
    if (length == sizeof augmentation)
      return false;
    augmentation[length] = (char)take(&reader, 1);
  } while (augmentation[length++] != 0 && !reader.failed);
  encodings->code_unit = take_leb128(&reader);
  take_leb128(&reader);
  encodings->return_column = version == 1 ? take(&reader, 1) : take_leb128(&reader);
  encodings->start = reader.at;
  if (augmentation[0] != 'z')
    return !reader.failed && augmentation[0] == 0;
  encodings->has_augmentation = true;
  uint64_t bytes = take_leb128(&reader);
  encodings->start = reader.at + bytes;
  for (size_t index = 1; augmentation[index] != 0; index++)
    switch (augmentation[index]) {
    case 'R':
      encodings->function = (uint8_t)take(&reader, 1);
      break;
    case 'L':
      encodings->lsda = (uint8_t)take(&reader, 1);
      break;
    case 'P':
      reader.at += encoded_bytes((uint8_t)take(&reader, 1));
      break;
    default: /* 'S', 'B' and others that have no data */
      break;
    }
  return !reader.failed;
}

/* Reads the FDE that ENTRY of TABLE leads to. */
static bool read_fde(struct unwinder *unwinder, const struct unwind_table *table, struct eh_frame_entry entry,
                     struct code_range *range) {
  struct encodings encodings;
  uint64_t end;
  struct reader reader = entry_at(unwinder, table->module.eh_frame_hdr + (uint64_t)(int64_t)entry.description, &end);
  uint64_t cie = reader.at;
  cie -= take(&reader, 4);
  if (reader.failed || !read_cie(unwinder, cie, &encodings))
    return false;
  size_t bytes = encoded_bytes(encodings.function);
  if (bytes == 0)
    return false;
  reader.at += bytes;
  range->start = function_of(table, entry);
  range->end = range->start + take(&reader, bytes);
  range->catches = false;
  if (encodings.has_augmentation) {
    take_leb128(&reader);
    size_t lsda_bytes = encodings.lsda == DW_EH_PE_omit ? 0 : encoded_bytes(encodings.lsda);
    range->catches = lsda_bytes > 0 && take(&reader, lsda_bytes) != 0;
  }
  return !reader.failed;
}

/* Finds the ENTRY of TABLE for the code at ADDRESS, and the RANGE that it describes. */
static bool find_entry(struct unwinder *unwinder, uint64_t address, struct unwind_table *table,
                       struct eh_frame_entry *entry, struct code_range *range) {
  uint32_t behind;
  bool in_module;
  return cunwind_find_table(unwinder, address, table, &in_module) && first_behind(unwinder, table, address, &behind) &&
         behind > 0 && read_entry(unwinder, table, behind - 1, entry) && read_fde(unwinder, table, *entry, range) &&
         address < range->end;
}

bool cunwind_table_function(struct unwinder *unwinder, uint64_t address, struct code_range *range) {
  address = cunwind_code_address(unwinder, address);
  struct unwind_tables *tables = unwinder->tables;
  uint64_t place = (address ^ address >> 8) % REMEMBERED;
  if (tables->known[place].address != address) {
    struct unwind_table table;
    struct eh_frame_entry entry;
    if (!find_entry(unwinder, address, &table, &entry, range))
      return false;
    tables->known[place].address = address;
    tables->known[place].range = *range;
  }
  *range = tables->known[place].range;
  return true;
}

/* What follows an instruction of a row: LEB128 numbers, or a number and a block of bytes. DWARF 5, section 6.4.2. */
static void skip_operands(struct reader *reader, uint8_t instruction) {
  int numbers = 0;
  bool has_block = false;
  switch (instruction) {
  case 0x00: /* nop, remember_state, restore_state, AARCH64_negate_ra_state */
  case 0x0a:
  case 0x0b:
  case 0x2d:
    break;
  case 0x0d: /* def_cfa_register, def_cfa_offset, def_cfa_offset_sf, GNU_args_size */
  case 0x0e:
  case 0x13:
  case 0x2e:
    numbers = 1;
    break;
  case 0x0c: /* def_cfa, def_cfa_sf */
  case 0x12:
    numbers = 2;
    break;
  case 0x0f: /* def_cfa_expression */
    has_block = true;
    break;
  default:
    reader->failed = true;
  }
  while (numbers-- > 0)
    take_leb128(reader);
  if (has_block)
    reader->at += take_leb128(reader);
}

/* The same for an instruction that gives register *NUMBER a rule. Returns false when INSTRUCTION is none of those. */
static bool take_rule(struct reader *reader, uint8_t instruction, uint64_t *number) {
  if (instruction >= 0x80) { /* offset, restore */
    *number = instruction & 0x3f;
    if (instruction < 0xc0)
      take_leb128(reader);
    return true;
  }
  switch (instruction) {
  case 0x06: /* restore_extended, undefined, same_value */
  case 0x07:
  case 0x08:
    *number = take_leb128(reader);
    return true;
  case 0x05: /* offset_extended, register, offset_extended_sf, val_offset, val_offset_sf, GNU_negative_offset_extended
              */
  case 0x09:
  case 0x11:
  case 0x14:
  case 0x15:
  case 0x2f:
    *number = take_leb128(reader);
    take_leb128(reader);
    return true;
  case 0x10: /* expression, val_expression */
  case 0x16:
    *number = take_leb128(reader);
    reader->at += take_leb128(reader);
    return true;
  default:
    return false;
  }
}

/* The distance that INSTRUCTION advances by, in the CIE's unit; 0 if it does not. */
static uint64_t take_advance(struct reader *reader, uint8_t instruction) {
  if (instruction >= 0x40 && instruction < 0x80)
    return instruction & 0x3f;
  return instruction >= 0x02 && instruction <= 0x04 ? take(reader, (size_t)1 << (instruction - 2)) : 0;
}

/* What the rows of a table say of one register. */
struct rule {
  uint64_t number;
  bool is_undefined; /* in the last row that was gone through */
  bool was_saved;    /* in any of them */
};

/* Goes through the instructions from READER's place to END, of rows that begin at ROW, up to the one of ADDRESS. */
static void run_rows(struct reader *reader, uint64_t end, uint64_t row, uint64_t address, uint64_t code_unit,
                     struct rule *rule) {
  enum { DW_CFA_undefined = 0x07, DW_CFA_same_value = 0x08, DW_CFA_restore_state = 0x0b, DW_CFA_restore = 0xc0 };
  enum { INSTRUCTIONS_MAX = 1000 };
  uint64_t number;
  for (int count = 0; reader->at < end && row <= address && !reader->failed && count < INSTRUCTIONS_MAX; count++) {
    uint8_t instruction = (uint8_t)take(reader, 1);
    uint64_t distance = take_advance(reader, instruction) * code_unit;
    row += distance;
    if (distance > 0)
      continue;
    if (instruction == DW_CFA_restore_state) { /* to a row that nobody has remembered here */
      rule->is_undefined = false;
    } else if (!take_rule(reader, instruction, &number)) {
      skip_operands(reader, instruction);
    } else if (number == rule->number) {
      rule->is_undefined = instruction == DW_CFA_undefined;
      rule->was_saved |= instruction < DW_CFA_restore && instruction != DW_CFA_same_value && !rule->is_undefined;
    }
  }
}

/* Finds what the table says of register NUMBER, or with -1 of the return address, up to the row of ADDRESS; with
 * WHOLE_FUNCTION, in all rows of the function that has the code at ADDRESS. */
static bool find_rule(struct unwinder *unwinder, uint64_t address, int number, bool whole_function, struct rule *rule) {
  struct unwind_table table;
  struct eh_frame_entry entry;
  struct code_range range;
  struct encodings encodings;
  uint64_t end;
  if (!find_entry(unwinder, address, &table, &entry, &range))
    return false;
  struct reader reader = entry_at(unwinder, table.module.eh_frame_hdr + (uint64_t)(int64_t)entry.description, &end);
  uint64_t cie = reader.at;
  cie -= take(&reader, 4);
  if (reader.failed || !read_cie(unwinder, cie, &encodings))
    return false;
  *rule = (struct rule){.number = number < 0 ? encodings.return_column : (uint64_t)number};
  struct reader first = {.unwinder = unwinder, .at = encodings.start};
  run_rows(&first, encodings.end, range.start, range.start, encodings.code_unit, rule);
  reader.at += 2 * encoded_bytes(encodings.function);
  if (encodings.has_augmentation) {
    uint64_t bytes = take_leb128(&reader);
    reader.at += bytes;
  }
  run_rows(&reader, end, range.start, whole_function ? range.end : address, encodings.code_unit, rule);
  return !first.failed && !reader.failed;
}

bool cunwind_table_is_outermost(struct unwinder *unwinder, uint64_t address) {
  struct rule rule;
  return find_rule(unwinder, address, -1, false, &rule) && rule.is_undefined;
}

bool cunwind_table_saves(struct unwinder *unwinder, uint64_t address, int number) {
  struct rule rule;
  return find_rule(unwinder, address, number, true, &rule) && rule.was_saved;
}

bool cunwind_table_gap(struct unwinder *unwinder, uint64_t address, struct code_range *range) {
  struct unwind_table table;
  struct eh_frame_entry entry;
  struct code_range before;
  uint32_t behind;
  bool in_module;
  if (!cunwind_find_table(unwinder, address, &table, &in_module) || !first_behind(unwinder, &table, address, &behind))
    return false;
  range->end = table.module.end;
  if (behind < table.count) {
    if (!read_entry(unwinder, &table, behind, &entry))
      return false;
    range->end = function_of(&table, entry);
  }
  if (behind == 0 || !read_entry(unwinder, &table, behind - 1, &entry) || !read_fde(unwinder, &table, entry, &before))
    return false;
  range->start = before.end;
  range->catches = false;
  return range->start <= address && address < range->end;
}
