#include "function_start.h"

#include "decode.h"
#include "process_memory.h"
#include "unwind_tables.h"

#include <string.h>

enum { SWEPT_BYTES_MAX = 64 << 10, REMEMBERED = 64 };

struct function_starts {
  struct {
    uint64_t address; /* 0: empty */
    struct code_range function;
    bool is_found;
  } remembered[REMEMBERED];
};

size_t cunwind_function_starts_bytes(void) { return sizeof(struct function_starts); }

void cunwind_function_starts_forget(struct unwinder *unwinder) {
  memset(unwinder->starts, 0, sizeof *unwinder->starts);
}

struct sweep {
  struct unwinder *unwinder;
  struct code_range between;
  uint64_t start;   /* start of the current function */
  uint64_t reached; /* highest target of the function's jumps */
  bool by_table;    /* jumps through a table might lead beyond REACHED */
  bool has_frame;
  bool drops_frame; /* the last instruction raised the stack pointer */
};

static uint64_t behind_padding(const struct sweep *sweep, uint64_t address) {
  uint8_t code[CODE_BYTES];
  size_t length;
  while (address < sweep->between.end && cunwind_read_code(sweep->unwinder, address, code) &&
         (length = sweep->unwinder->architecture->padding(code)) > 0)
    address += length;
  return address;
}

static bool may_begin(const struct sweep *sweep, uint64_t address, bool goes_on) {
  uint8_t code[UNWIND_PROLOGUE_BYTES];
  bool is_aligned = address % sweep->unwinder->architecture->function_alignment == 0;
  if (address >= sweep->between.end || (is_aligned && !sweep->by_table && !goes_on))
    return true;
  return (is_aligned || !goes_on) && cunwind_read(sweep->unwinder, address, code, sizeof code) &&
         sweep->unwinder->architecture->begins_frame(code);
}

static bool is_tail_call(const struct sweep *sweep, uint64_t target) {
  return target % sweep->unwinder->architecture->function_alignment == 0 && (sweep->drops_frame || !sweep->has_frame);
}

static void begin(struct sweep *sweep, uint64_t address) {
  *sweep = (struct sweep){.unwinder = sweep->unwinder, .between = sweep->between, .start = address};
}

/* Updates SWEEP for an instruction with COUNT OPERATIONS. Returns whether execution can continue at the next
 * instruction; sets *CALLS to whether the instruction is a call. */
static bool note(struct sweep *sweep, const struct code_operation *operations, int count, uint64_t next, bool *calls) {
  bool goes_on = true, raises = false, does_nothing = true;
  *calls = false;
  for (int index = 0; index < count; index++) {
    const struct code_operation *operation = &operations[index];
    enum code_kind kind = operation->kind;
    bool is_ahead = operation->target >= next && operation->target < sweep->between.end;
    if (kind == CODE_BRANCH || (kind == CODE_JUMP && !is_tail_call(sweep, operation->target)))
      if (is_ahead && operation->target > sweep->reached)
        sweep->reached = operation->target;
    if (kind == CODE_JUMP_ANYWHERE && sweep->has_frame && !sweep->drops_frame)
      sweep->by_table = true;
    if (operation->to == sweep->unwinder->architecture->sp &&
        (kind == CODE_LOWER || kind == CODE_ALIGN ||
         (kind == CODE_SET && operation->from == sweep->unwinder->architecture->sp && operation->amount < 0)))
      sweep->has_frame = true;
    raises |= operation->to == sweep->unwinder->architecture->sp && kind == CODE_SET &&
              (operation->from != sweep->unwinder->architecture->sp || operation->amount > 0);
    does_nothing &= kind == CODE_PADDING;
    *calls |= code_is_call(kind);
    goes_on &= code_goes_on(kind);
  }
  if (!does_nothing)
    sweep->drops_frame = raises;
  return goes_on;
}

/* Looks for the function around ADDRESS in the cache; raises *FROM to the end of the last cached function before
 * ADDRESS. */
static bool recall(struct unwinder *unwinder, uint64_t address, uint64_t *from, struct code_range *function) {
  for (int place = 0; place < REMEMBERED; place++) {
    const struct code_range *known = &unwinder->starts->remembered[place].function;
    if (!unwinder->starts->remembered[place].is_found)
      continue;
    if (address >= known->start && address < known->end) {
      *function = *known;
      return true;
    }
    if (known->end <= address && known->end > *from)
      *from = known->end;
  }
  return false;
}

static bool find(struct unwinder *unwinder, struct code_range between, uint64_t address, struct code_range *function) {
  struct sweep sweep = {.unwinder = unwinder, .between = between};
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  if (address - between.start > SWEPT_BYTES_MAX)
    return false;
  if (between.end - address > SWEPT_BYTES_MAX)
    sweep.between.end = address + SWEPT_BYTES_MAX;
  uint64_t from = between.start;
  if (recall(unwinder, address, &from, function))
    return true;
  uint64_t at = behind_padding(&sweep, from);
  begin(&sweep, at);
  while (at < sweep.between.end && address >= sweep.start) {
    size_t length = cunwind_decode_at(unwinder, at, operations, &count);
    if (length == 0)
      return false;
    at += length;
    bool calls, goes_on = note(&sweep, operations, count, at, &calls);
    if ((goes_on && !calls) || sweep.reached >= at)
      continue;
    uint64_t next = behind_padding(&sweep, at);
    if (!may_begin(&sweep, next, goes_on))
      continue;
    if (address < at) {
      *function = (struct code_range){sweep.start, at, false};
      return true;
    }
    begin(&sweep, next);
    at = next;
  }
  if (at < between.end || address < sweep.start || address >= at)
    return false;
  *function = (struct code_range){sweep.start, between.end, false};
  return true;
}

bool cunwind_function_around(struct unwinder *unwinder, uint64_t address, struct code_range *function) {
  uint64_t place = (address ^ address >> 6) % REMEMBERED;
  if (unwinder->starts->remembered[place].address != address) {
    struct code_range between, found = {0};
    bool is_found = cunwind_table_gap(unwinder, address, &between) && find(unwinder, between, address, &found);
    struct unwind_module module;
    /* A failure outside of all modules is not cached: a module might be loaded there later without invalidating the
     * cache. */
    if (!is_found && !cunwind_find_module(unwinder, address, &module))
      return false;
    unwinder->starts->remembered[place].address = address;
    unwinder->starts->remembered[place].function = found;
    unwinder->starts->remembered[place].is_found = is_found;
  }
  *function = unwinder->starts->remembered[place].function;
  return unwinder->starts->remembered[place].is_found;
}

bool cunwind_function_at(struct unwinder *unwinder, uint64_t address, struct code_range *function) {
  return cunwind_table_function(unwinder, address, function) || cunwind_function_around(unwinder, address, function);
}
