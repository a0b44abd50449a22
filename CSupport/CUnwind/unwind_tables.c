#include "unwind_tables.h"

#include "eh_frame.h"
#include "process_memory.h"

#include <string.h>

/* The header of .eh_frame_hdr as linkers write it (Linux Standard Base Core, "Exception Frames"). Other valid encodings
 * count as missing unwind information. */
struct eh_frame_hdr {
  uint8_t version;
  uint8_t eh_frame_ptr_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  int32_t eh_frame_ptr;
  uint32_t count;
};
enum { DW_EH_PE_udata4 = 0x03, DW_EH_PE_pcrel_sdata4 = 0x1b, DW_EH_PE_datarel_sdata4 = 0x3b };

struct eh_frame_entry {
  int32_t function, description;
};

struct unwind_table {
  struct unwind_module module;
  uint64_t entries; /* address of the first entry */
  uint32_t count;
};

enum { REMEMBERED = 256 };

struct unwind_tables {
  struct {
    uint64_t address; /* 0: empty */
    struct code_range range;
  } known[REMEMBERED];
};

size_t cunwind_tables_bytes(void) { return sizeof(struct unwind_tables); }

void cunwind_tables_forget(struct unwinder *unwinder) { memset(unwinder->tables, 0, sizeof *unwinder->tables); }

static bool find_table(struct unwinder *unwinder, uint64_t address, struct unwind_table *table) {
  struct eh_frame_hdr header;
  struct unwind_module *module = &table->module;
  if (!cunwind_find_module(unwinder, address, module) || module->eh_frame_hdr == 0 || address < module->start ||
      address >= module->end || !cunwind_read(unwinder, module->eh_frame_hdr, &header, sizeof header) ||
      header.version != 1 || header.eh_frame_ptr_encoding != DW_EH_PE_pcrel_sdata4 ||
      header.count_encoding != DW_EH_PE_udata4 || header.table_encoding != DW_EH_PE_datarel_sdata4 || header.count == 0)
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

static bool find_entry(struct unwinder *unwinder, uint64_t address, struct unwind_table *table,
                       struct eh_frame_entry *entry, struct code_range *range) {
  uint32_t behind;
  return find_table(unwinder, address, table) && first_behind(unwinder, table, address, &behind) && behind > 0 &&
         read_entry(unwinder, table, behind - 1, entry) && read_fde(unwinder, table, *entry, range) &&
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

bool cunwind_is_described(struct unwinder *unwinder, uint64_t address) {
  struct code_range range;
  return cunwind_table_function(unwinder, address, &range);
}

bool cunwind_table_gap(struct unwinder *unwinder, uint64_t address, struct code_range *range) {
  struct unwind_table table;
  struct eh_frame_entry entry;
  struct code_range before;
  uint32_t behind;
  if (!find_table(unwinder, address, &table) || !first_behind(unwinder, &table, address, &behind))
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
