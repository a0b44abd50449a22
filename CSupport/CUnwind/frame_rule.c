#include "frame_rule.h"

#include "eh_frame.h"
#include "unwind_tables.h"

#include <string.h>

/* Call frame instructions: DWARF 5, section 6.4.2, and Linux Standard Base Core, ".eh_frame". */
enum {
  DW_CFA_nop = 0x00,
  DW_CFA_advance_loc1 = 0x02,
  DW_CFA_advance_loc2 = 0x03,
  DW_CFA_advance_loc4 = 0x04,
  DW_CFA_offset_extended = 0x05,
  DW_CFA_restore_extended = 0x06,
  DW_CFA_undefined = 0x07,
  DW_CFA_same_value = 0x08,
  DW_CFA_remember_state = 0x0a,
  DW_CFA_restore_state = 0x0b,
  DW_CFA_def_cfa = 0x0c,
  DW_CFA_def_cfa_register = 0x0d,
  DW_CFA_def_cfa_offset = 0x0e,
  DW_CFA_offset_extended_sf = 0x11,
  DW_CFA_def_cfa_sf = 0x12,
  DW_CFA_def_cfa_offset_sf = 0x13,
  DW_CFA_GNU_args_size = 0x2e,
  DW_CFA_advance_loc = 0x40,
  DW_CFA_offset = 0x80,
  DW_CFA_restore = 0xc0,
  HIGH_BITS = 0xc0,
  LOW_BITS = 0x3f,
};

/* Maximum number of registers in a row, of remembered rows, and of instructions in one function. */
enum { REGISTERS = 32, REMEMBERED_MAX = 4, INSTRUCTIONS_MAX = 1000 };

/* A row of an unwind table. A register that is neither saved nor undefined keeps the caller's value. */
struct row {
  bool has_cfa;
  uint64_t cfa_register;
  int64_t cfa_offset;
  uint32_t saved, undefined; /* one bit per register */
  int64_t offsets[REGISTERS];
};

/* The rows of a function up to the requested one. */
struct rows {
  struct entry_reader reader;
  struct entry_format format;
  uint64_t end; /* end of the instructions */
  uint64_t at, address;
  uint64_t registers; /* number of registers */
  struct row row, first, remembered[REMEMBERED_MAX];
  int depth;
  bool is_simple;
};

/* Converts OFFSET from the table's unit to bytes. Wraps around for damaged tables. */
static int64_t in_bytes(const struct rows *rows, int64_t offset) {
  return (int64_t)((uint64_t)offset * (uint64_t)rows->format.data_unit);
}

static void set(struct rows *rows, uint64_t number, uint32_t *bits, int64_t offset) {
  if (number >= rows->registers) {
    rows->is_simple = false;
    return;
  }
  rows->row.saved &= ~(UINT32_C(1) << number);
  rows->row.undefined &= ~(UINT32_C(1) << number);
  rows->row.offsets[number] = offset;
  if (bits)
    *bits |= UINT32_C(1) << number;
}

static void restore(struct rows *rows, uint64_t number) {
  if (number >= rows->registers) {
    rows->is_simple = false;
    return;
  }
  uint32_t bit = UINT32_C(1) << number;
  set(rows, number, NULL, rows->first.offsets[number]);
  rows->row.saved |= rows->first.saved & bit;
  rows->row.undefined |= rows->first.undefined & bit;
}

/* Runs an instruction with an operand in its low bits. */
static void run_short(struct rows *rows, uint8_t instruction) {
  uint64_t operand = instruction & LOW_BITS;
  switch (instruction & HIGH_BITS) {
  case DW_CFA_advance_loc:
    rows->at += operand * rows->format.code_unit;
    break;
  case DW_CFA_offset:
    set(rows, operand, &rows->row.saved, in_bytes(rows, (int64_t)cunwind_take_leb128(&rows->reader)));
    break;
  default: /* DW_CFA_restore */
    restore(rows, operand);
    break;
  }
}

static void run_long(struct rows *rows, uint8_t instruction) {
  struct entry_reader *reader = &rows->reader;
  struct row *row = &rows->row;
  uint64_t number;
  switch (instruction) {
  case DW_CFA_nop:
    break;
  case DW_CFA_advance_loc1:
  case DW_CFA_advance_loc2:
  case DW_CFA_advance_loc4:
    rows->at += cunwind_take(reader, (size_t)1 << (instruction - DW_CFA_advance_loc1)) * rows->format.code_unit;
    break;
  case DW_CFA_offset_extended:
    number = cunwind_take_leb128(reader);
    set(rows, number, &row->saved, in_bytes(rows, (int64_t)cunwind_take_leb128(reader)));
    break;
  case DW_CFA_offset_extended_sf:
    number = cunwind_take_leb128(reader);
    set(rows, number, &row->saved, in_bytes(rows, cunwind_take_signed_leb128(reader)));
    break;
  case DW_CFA_restore_extended:
    restore(rows, cunwind_take_leb128(reader));
    break;
  case DW_CFA_undefined:
    set(rows, cunwind_take_leb128(reader), &row->undefined, 0);
    break;
  case DW_CFA_same_value:
    set(rows, cunwind_take_leb128(reader), NULL, 0);
    break;
  case DW_CFA_remember_state:
    if (rows->depth == REMEMBERED_MAX)
      rows->is_simple = false;
    else
      rows->remembered[rows->depth++] = *row;
    break;
  case DW_CFA_restore_state:
    if (rows->depth == 0)
      rows->is_simple = false;
    else
      *row = rows->remembered[--rows->depth];
    break;
  case DW_CFA_def_cfa:
    row->has_cfa = true;
    row->cfa_register = cunwind_take_leb128(reader);
    row->cfa_offset = (int64_t)cunwind_take_leb128(reader);
    break;
  case DW_CFA_def_cfa_sf:
    row->has_cfa = true;
    row->cfa_register = cunwind_take_leb128(reader);
    row->cfa_offset = in_bytes(rows, cunwind_take_signed_leb128(reader));
    break;
  case DW_CFA_def_cfa_register:
    row->has_cfa = true;
    row->cfa_register = cunwind_take_leb128(reader);
    break;
  case DW_CFA_def_cfa_offset:
    row->cfa_offset = (int64_t)cunwind_take_leb128(reader);
    break;
  case DW_CFA_def_cfa_offset_sf:
    row->cfa_offset = in_bytes(rows, cunwind_take_signed_leb128(reader));
    break;
  case DW_CFA_GNU_args_size:
    cunwind_take_leb128(reader);
    break;
  default: /* expressions, registers saved in registers, and unknown instructions */
    rows->is_simple = false;
    break;
  }
}

/* Runs instructions from the reader's position up to the row of the requested address. */
static void run(struct rows *rows) {
  int count = 0;
  while (rows->is_simple && rows->reader.at < rows->end && rows->at <= rows->address) {
    uint8_t instruction = (uint8_t)cunwind_take(&rows->reader, 1);
    if ((instruction & HIGH_BITS) != 0)
      run_short(rows, instruction);
    else
      run_long(rows, instruction);
    rows->is_simple &= !rows->reader.failed && ++count < INSTRUCTIONS_MAX;
  }
}

/* Converts ROW to RULE. Returns false if a rule cannot hold it. */
static bool make_rule(const struct unwind_architecture *architecture, const struct row *row, uint64_t return_column,
                      struct frame_rule *rule) {
  uint32_t return_bit = UINT32_C(1) << return_column, sp_bit = UINT32_C(1) << architecture->sp;
  memset(rule, 0, sizeof *rule);
  if (!row->has_cfa || row->cfa_register >= (uint64_t)architecture->general_registers ||
      row->cfa_offset != (int32_t)row->cfa_offset || ((row->saved | row->undefined) & sp_bit) != 0)
    return false;
  rule->cfa_register = (uint8_t)row->cfa_register;
  rule->cfa_offset = (int32_t)row->cfa_offset;
  rule->saved = row->saved;
  rule->is_outermost = row->undefined == return_bit;
  if (rule->is_outermost)
    return true;
  if (row->undefined != 0 || (row->saved & return_bit) == 0)
    return false;
  int count = 0;
  for (int number = 0; number < REGISTERS; number++) {
    if (!(row->saved >> number & 1))
      continue;
    int64_t offset = row->offsets[number] / RULE_UNIT;
    if (count == RULE_SAVED_MAX || row->offsets[number] % RULE_UNIT != 0 || offset != (int16_t)offset)
      return false;
    rule->offsets[count++] = (int16_t)offset;
  }
  return true;
}

bool cunwind_read_frame_rule(struct unwinder *unwinder, uint64_t address, struct frame_rule *rule) {
  struct rows rows = {.address = address, .is_simple = true};
  struct entry_reader reader;
  struct code_range range;
  uint64_t description, end;
  int return_column = unwinder->architecture->return_column;
  rows.registers = (uint64_t)unwinder->architecture->registers;
  if (return_column == UNWIND_NO_REGISTER || rows.registers > REGISTERS ||
      !cunwind_table_entry(unwinder, address, &description, &range) ||
      !cunwind_open_fde(unwinder, description, &rows.format, &reader, &end) || !rows.format.is_plain ||
      rows.format.return_column != (uint64_t)return_column)
    return false;
  rows.reader = (struct entry_reader){.unwinder = unwinder, .at = rows.format.start};
  rows.end = rows.format.end;
  rows.at = rows.address; /* runs all initial instructions */
  run(&rows);
  rows.first = rows.row;
  rows.depth = 0;
  rows.reader = reader;
  rows.end = end;
  rows.at = range.start;
  run(&rows);
  return rows.is_simple && make_rule(unwinder->architecture, &rows.row, rows.format.return_column, rule);
}
