#include "unwind_tables.h"

#include "eh_frame.h"
#include "process_memory.h"

#include <string.h>

/* The header of .eh_frame_hdr as linkers write it (Linux Standard Base Core, "Exception Frames"). Other encodings are
 * valid but not used in practice; they count as missing unwind information. */
struct eh_frame_hdr {
  uint8_t version;
  uint8_t eh_frame_ptr_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  int32_t eh_frame_ptr;
  uint32_t count;
};
enum { DW_EH_PE_udata4 = 0x03, DW_EH_PE_pcrel_sdata4 = 0x1b, DW_EH_PE_datarel_sdata4 = 0x3b };

/* An entry of the table behind the header, sorted by function: offsets from the header. */
struct eh_frame_entry {
  int32_t function, description;
};

/* Size of the answer cache. */
enum { REMEMBERED = 256 };

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

static uint64_t description_of(const struct unwind_table *table, struct eh_frame_entry entry) {
  return table->module.eh_frame_hdr + (uint64_t)(int64_t)entry.description;
}

/* Finds the index of TABLE's first function that begins behind ADDRESS; TABLE's count if there is none. */
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

/* Reads the range of the FDE of ENTRY in TABLE. */
static bool read_fde(struct unwinder *unwinder, const struct unwind_table *table, struct eh_frame_entry entry,
                     struct code_range *range) {
  struct entry_format format;
  uint64_t end;
  struct entry_reader reader = cunwind_entry_at(unwinder, description_of(table, entry), &end);
  uint64_t cie = reader.at;
  cie -= cunwind_take(&reader, 4);
  if (reader.failed || !cunwind_read_cie(unwinder, cie, &format))
    return false;
  size_t bytes = cunwind_encoded_bytes(format.function);
  if (bytes == 0)
    return false;
  reader.at += bytes;
  range->start = function_of(table, entry);
  range->end = range->start + cunwind_take(&reader, bytes);
  range->catches = false;
  if (format.has_augmentation) {
    cunwind_take_leb128(&reader);
    size_t lsda_bytes = format.lsda == DW_EH_PE_omit ? 0 : cunwind_encoded_bytes(format.lsda);
    range->catches = lsda_bytes > 0 && cunwind_take(&reader, lsda_bytes) != 0;
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

bool cunwind_table_entry(struct unwinder *unwinder, uint64_t address, uint64_t *description, struct code_range *range) {
  struct unwind_table table;
  struct eh_frame_entry entry;
  if (!find_entry(unwinder, address, &table, &entry, range))
    return false;
  *description = description_of(&table, entry);
  return address >= range->start;
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

/* Skips the operands of a row instruction: LEB128 numbers, or a number and a block of bytes. DWARF 5, section 6.4.2. */
static void skip_operands(struct entry_reader *reader, uint8_t instruction) {
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
    cunwind_take_leb128(reader);
  if (has_block)
    reader->at += cunwind_take_leb128(reader);
}

/* Skips the operands of an instruction that sets the rule of a register; sets *NUMBER to the register. Returns false if
 * INSTRUCTION sets no rule. */
static bool take_rule(struct entry_reader *reader, uint8_t instruction, uint64_t *number) {
  if (instruction >= 0x80) { /* offset, restore */
    *number = instruction & 0x3f;
    if (instruction < 0xc0)
      cunwind_take_leb128(reader);
    return true;
  }
  switch (instruction) {
  case 0x06: /* restore_extended, undefined, same_value */
  case 0x07:
  case 0x08:
    *number = cunwind_take_leb128(reader);
    return true;
  case 0x05: /* offset_extended, register, offset_extended_sf, val_offset, val_offset_sf, GNU_negative_offset_extended
              */
  case 0x09:
  case 0x11:
  case 0x14:
  case 0x15:
  case 0x2f:
    *number = cunwind_take_leb128(reader);
    cunwind_take_leb128(reader);
    return true;
  case 0x10: /* expression, val_expression */
  case 0x16:
    *number = cunwind_take_leb128(reader);
    reader->at += cunwind_take_leb128(reader);
    return true;
  default:
    return false;
  }
}

/* Returns the distance by which INSTRUCTION advances, in the CIE's unit; 0 if it does not advance. */
static uint64_t take_advance(struct entry_reader *reader, uint8_t instruction) {
  if (instruction >= 0x40 && instruction < 0x80)
    return instruction & 0x3f;
  return instruction >= 0x02 && instruction <= 0x04 ? cunwind_take(reader, (size_t)1 << (instruction - 2)) : 0;
}

/* The rule of one register in the rows of a table. */
struct rule {
  uint64_t number;
  bool is_undefined; /* in the last row */
  bool was_saved;    /* in any row */
};

/* Runs the row instructions from READER's position to END. The first row begins at ROW; the last one is ADDRESS's. */
static void run_rows(struct entry_reader *reader, uint64_t end, uint64_t row, uint64_t address, uint64_t code_unit,
                     struct rule *rule) {
  enum { DW_CFA_undefined = 0x07, DW_CFA_same_value = 0x08, DW_CFA_restore_state = 0x0b, DW_CFA_restore = 0xc0 };
  enum { INSTRUCTIONS_MAX = 1000 };
  uint64_t number;
  for (int count = 0; reader->at < end && row <= address && !reader->failed && count < INSTRUCTIONS_MAX; count++) {
    uint8_t instruction = (uint8_t)cunwind_take(reader, 1);
    uint64_t distance = take_advance(reader, instruction) * code_unit;
    row += distance;
    if (distance > 0)
      continue;
    if (instruction == DW_CFA_restore_state) { /* to a row that is not tracked here */
      rule->is_undefined = false;
    } else if (!take_rule(reader, instruction, &number)) {
      skip_operands(reader, instruction);
    } else if (number == rule->number) {
      rule->is_undefined = instruction == DW_CFA_undefined;
      rule->was_saved |= instruction < DW_CFA_restore && instruction != DW_CFA_same_value && !rule->is_undefined;
    }
  }
}

/* Finds the rule of register NUMBER, or of the return address if NUMBER is -1, up to the row of ADDRESS; with
 * WHOLE_FUNCTION, in all rows of the function around ADDRESS. */
static bool find_rule(struct unwinder *unwinder, uint64_t address, int number, bool whole_function, struct rule *rule) {
  struct unwind_table table;
  struct eh_frame_entry entry;
  struct code_range range;
  struct entry_format format;
  struct entry_reader reader;
  uint64_t end;
  if (!find_entry(unwinder, address, &table, &entry, &range) ||
      !cunwind_open_fde(unwinder, description_of(&table, entry), &format, &reader, &end))
    return false;
  *rule = (struct rule){.number = number < 0 ? format.return_column : (uint64_t)number};
  struct entry_reader first = {.unwinder = unwinder, .at = format.start};
  run_rows(&first, format.end, range.start, range.start, format.code_unit, rule);
  run_rows(&reader, end, range.start, whole_function ? range.end : address, format.code_unit, rule);
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
