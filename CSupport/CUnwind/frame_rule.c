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
  DW_CFA_register = 0x09,
  DW_CFA_remember_state = 0x0a,
  DW_CFA_restore_state = 0x0b,
  DW_CFA_def_cfa = 0x0c,
  DW_CFA_def_cfa_register = 0x0d,
  DW_CFA_def_cfa_offset = 0x0e,
  DW_CFA_def_cfa_expression = 0x0f,
  DW_CFA_expression = 0x10,
  DW_CFA_offset_extended_sf = 0x11,
  DW_CFA_def_cfa_sf = 0x12,
  DW_CFA_def_cfa_offset_sf = 0x13,
  DW_CFA_val_offset = 0x14,
  DW_CFA_val_offset_sf = 0x15,
  DW_CFA_val_expression = 0x16,
  DW_CFA_AARCH64_negate_ra_state = 0x2d, /* code_mask removes the authentication code in any state */
  DW_CFA_GNU_args_size = 0x2e,
  DW_CFA_GNU_negative_offset_extended = 0x2f,
  DW_CFA_advance_loc = 0x40,
  DW_CFA_offset = 0x80,
  DW_CFA_restore = 0xc0,
  HIGH_BITS = 0xc0,
  LOW_BITS = 0x3f,
};

enum { REMEMBERED_ROWS_MAX = 8, INSTRUCTIONS_MAX = 1 << 16 };

enum { CACHED = 512 };

struct cached_rule {
  uint64_t address; /* 0: empty */
  uint32_t use;     /* copied from struct frame_rules; other values mark outdated rules */
  bool is_valid;    /* RULE was read */
  struct frame_rule rule;
};

struct frame_rules {
  uint32_t use;
  struct cached_rule cached[CACHED];
};

size_t cunwind_rules_bytes(void) { return sizeof(struct frame_rules); }

void cunwind_rules_forget(struct unwinder *unwinder) { unwinder->rules->use++; }

struct row {
  struct register_rule cfa, registers[UNWIND_REGISTERS_MAX];
};

struct rows {
  struct entry_reader reader;
  struct entry_format format;
  uint64_t description;
  uint64_t end;
  uint64_t at, address;
  uint64_t registers;
  struct row row, first, remembered[REMEMBERED_ROWS_MAX]; /* FIRST: after the CIE's instructions */
  int depth;
  bool failed;
};

static void set(struct rows *rows, struct register_rule *rule, enum place_kind kind, int64_t value) {
  rows->failed |= value != (int32_t)value;
  rule->kind = (uint8_t)kind;
  rule->value = (int32_t)value;
}

/* Registers that unwinding does not track share the last rule. */
static struct register_rule *rule_of(struct rows *rows, struct row *row, uint64_t number) {
  return &row->registers[number < rows->registers ? number : UNWIND_REGISTERS_MAX - 1];
}

static struct register_rule *take_register(struct rows *rows) {
  return rule_of(rows, &rows->row, cunwind_take_leb128(&rows->reader));
}

static int64_t take_offset(struct rows *rows) { return (int64_t)cunwind_take_leb128(&rows->reader); }

static int64_t in_bytes(const struct rows *rows, int64_t offset) {
  return (int64_t)((uint64_t)offset * (uint64_t)rows->format.data_unit);
}

static int64_t take_signed_offset(struct rows *rows) {
  return in_bytes(rows, cunwind_take_signed_leb128(&rows->reader));
}

static void set_expression(struct rows *rows, struct register_rule *rule, enum place_kind kind) {
  set(rows, rule, kind, (int64_t)(rows->reader.at - rows->description));
  uint64_t length = cunwind_take_leb128(&rows->reader);
  rows->reader.at += length;
}

static void restore(struct rows *rows, uint64_t number) {
  *rule_of(rows, &rows->row, number) = *rule_of(rows, &rows->first, number);
}

static void set_cfa(struct rows *rows, uint64_t number, int64_t offset) {
  rows->failed |= number >= rows->registers;
  rows->row.cfa.number = (uint8_t)number;
  set(rows, &rows->row.cfa, PLACE_IS_OFFSET, offset);
}

static void run_short(struct rows *rows, uint8_t instruction) {
  uint64_t operand = instruction & LOW_BITS;
  switch (instruction & HIGH_BITS) {
  case DW_CFA_advance_loc:
    rows->at += operand * rows->format.code_unit;
    break;
  case DW_CFA_offset:
    set(rows, rule_of(rows, &rows->row, operand), PLACE_AT_OFFSET, in_bytes(rows, take_offset(rows)));
    break;
  default: /* DW_CFA_restore */
    restore(rows, operand);
    break;
  }
}

static bool run_register(struct rows *rows, uint8_t instruction) {
  struct register_rule *rule;
  switch (instruction) {
  case DW_CFA_offset_extended:
    rule = take_register(rows);
    set(rows, rule, PLACE_AT_OFFSET, in_bytes(rows, take_offset(rows)));
    return true;
  case DW_CFA_GNU_negative_offset_extended:
    rule = take_register(rows);
    set(rows, rule, PLACE_AT_OFFSET, -(take_offset(rows) & INT32_MAX));
    return true;
  case DW_CFA_offset_extended_sf:
    rule = take_register(rows);
    set(rows, rule, PLACE_AT_OFFSET, take_signed_offset(rows));
    return true;
  case DW_CFA_val_offset:
    rule = take_register(rows);
    set(rows, rule, PLACE_IS_OFFSET, in_bytes(rows, take_offset(rows)));
    return true;
  case DW_CFA_val_offset_sf:
    rule = take_register(rows);
    set(rows, rule, PLACE_IS_OFFSET, take_signed_offset(rows));
    return true;
  case DW_CFA_register:
    rule = take_register(rows);
    set(rows, rule, PLACE_IN_REGISTER, take_offset(rows));
    return true;
  case DW_CFA_expression:
    set_expression(rows, take_register(rows), PLACE_AT_EXPRESSION);
    return true;
  case DW_CFA_val_expression:
    set_expression(rows, take_register(rows), PLACE_IS_EXPRESSION);
    return true;
  case DW_CFA_undefined:
    set(rows, take_register(rows), PLACE_LOST, 0);
    return true;
  case DW_CFA_same_value:
    set(rows, take_register(rows), PLACE_NONE, 0);
    return true;
  case DW_CFA_restore_extended:
    restore(rows, cunwind_take_leb128(&rows->reader));
    return true;
  default:
    return false;
  }
}

static bool run_cfa(struct rows *rows, uint8_t instruction) {
  const struct register_rule *cfa = &rows->row.cfa;
  uint64_t number;
  switch (instruction) {
  case DW_CFA_def_cfa:
    number = cunwind_take_leb128(&rows->reader);
    set_cfa(rows, number, take_offset(rows));
    return true;
  case DW_CFA_def_cfa_sf:
    number = cunwind_take_leb128(&rows->reader);
    set_cfa(rows, number, take_signed_offset(rows));
    return true;
  case DW_CFA_def_cfa_register:
    rows->failed |= cfa->kind == PLACE_IS_EXPRESSION;
    set_cfa(rows, cunwind_take_leb128(&rows->reader), cfa->value);
    return true;
  case DW_CFA_def_cfa_offset:
    rows->failed |= cfa->kind != PLACE_IS_OFFSET;
    set_cfa(rows, cfa->number, take_offset(rows));
    return true;
  case DW_CFA_def_cfa_offset_sf:
    rows->failed |= cfa->kind != PLACE_IS_OFFSET;
    set_cfa(rows, cfa->number, take_signed_offset(rows));
    return true;
  case DW_CFA_def_cfa_expression:
    set_expression(rows, &rows->row.cfa, PLACE_IS_EXPRESSION);
    return true;
  default:
    return false;
  }
}

static void run_long(struct rows *rows, uint8_t instruction) {
  switch (instruction) {
  case DW_CFA_nop:
  case DW_CFA_AARCH64_negate_ra_state:
    break;
  case DW_CFA_advance_loc1:
  case DW_CFA_advance_loc2:
  case DW_CFA_advance_loc4:
    rows->at += cunwind_take(&rows->reader, (size_t)1 << (instruction - DW_CFA_advance_loc1)) * rows->format.code_unit;
    break;
  case DW_CFA_remember_state:
    if (rows->depth == REMEMBERED_ROWS_MAX)
      rows->failed = true;
    else
      rows->remembered[rows->depth++] = rows->row;
    break;
  case DW_CFA_restore_state:
    if (rows->depth == 0)
      rows->failed = true;
    else
      rows->row = rows->remembered[--rows->depth];
    break;
  case DW_CFA_GNU_args_size:
    cunwind_take_leb128(&rows->reader);
    break;
  default:
    rows->failed |= !run_register(rows, instruction) && !run_cfa(rows, instruction);
    break;
  }
}

static void run(struct rows *rows) {
  int count = 0;
  while (!rows->failed && rows->reader.at < rows->end && rows->at <= rows->address) {
    uint8_t instruction = (uint8_t)cunwind_take(&rows->reader, 1);
    if ((instruction & HIGH_BITS) != 0)
      run_short(rows, instruction);
    else
      run_long(rows, instruction);
    rows->failed |= rows->reader.failed || ++count == INSTRUCTIONS_MAX;
  }
}

static bool make_rule(const struct unwind_architecture *architecture, const struct rows *rows,
                      struct frame_rule *rule) {
  const struct register_rule *registers = rows->row.registers;
  uint8_t return_kind = registers[architecture->return_column].kind;
  *rule = (struct frame_rule){.description = rows->description,
                              .cfa = rows->row.cfa,
                              .is_outermost = return_kind == PLACE_LOST,
                              .is_signal_frame = rows->format.is_signal_frame};
  if (rule->is_outermost)
    return true;
  /* A call leaves its return address in the link register, if there is one. */
  if (rule->cfa.kind == PLACE_NONE || (return_kind == PLACE_NONE && architecture->return_column != architecture->link))
    return false;
  for (int number = 0; number < architecture->registers; number++) {
    if (registers[number].kind == PLACE_NONE)
      continue;
    if (rule->count == RULE_REGISTERS_MAX)
      return false;
    rule->registers[rule->count] = registers[number];
    rule->registers[rule->count++].number = (uint8_t)number;
  }
  return true;
}

static bool read_rule(struct unwinder *unwinder, uint64_t address, struct frame_rule *rule) {
  const struct unwind_architecture *architecture = unwinder->architecture;
  struct rows rows = {.address = address, .registers = (uint64_t)architecture->registers};
  struct entry_reader reader;
  struct code_range range;
  uint64_t end;
  if (!cunwind_table_entry(unwinder, address, &rows.description, &range) ||
      !cunwind_open_fde(unwinder, rows.description, &rows.format, &reader, &end) || rows.format.is_unknown ||
      rows.format.return_column != (uint64_t)architecture->return_column)
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
  return !rows.failed && make_rule(architecture, &rows, rule);
}

const struct frame_rule *cunwind_rule_at(struct unwinder *unwinder, uint64_t address) {
  struct frame_rules *rules = unwinder->rules;
  struct cached_rule *cached = &rules->cached[(address ^ address >> 9) % CACHED];
  if (cached->address != address || cached->use != rules->use) {
    cached->address = address;
    cached->use = rules->use;
    cached->is_valid = read_rule(unwinder, address, &cached->rule);
  }
  return cached->is_valid ? &cached->rule : NULL;
}
