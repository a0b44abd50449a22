#include "transfer.h"

/* Assumed size of an object whose address escapes, and distance before LOADS_BEFORE in which loads get symbols. */
enum { ESCAPED_BYTES = 256, LOADING_BYTES = 96 };

/* Symbols reserved for values more important than loads. */
enum { SYMBOLS_KEPT = 16 };

static const struct symbolic_value unknown = {0, 0, 0};

static bool same_value(struct symbolic_value one, struct symbolic_value other) {
  return one.symbol == other.symbol && one.shift == other.shift && one.offset == other.offset;
}

static void kill(struct abstract_state *state, int symbol) {
  for (int number = 0; number < CODE_REGISTERS; number++)
    if (state->registers[number].symbol == symbol)
      state->registers[number] = unknown;
  int kept = 0;
  for (int index = 0; index < state->cell_count; index++)
    if (state->cells[index].where.symbol != symbol && state->cells[index].what.symbol != symbol)
      state->cells[kept++] = state->cells[index];
  state->cell_count = (uint8_t)kept;
}

/* Returns the symbol of the instruction at ADDRESS. If an earlier path gave the symbol another meaning, it becomes
 * SYMBOL_FREE. */
static struct symbolic_value intern(struct transfer *transfer, struct abstract_state *state, uint64_t address,
                                    enum symbol_kind kind, struct symbolic_value parent, int64_t mask) {
  struct frame_facts *facts = transfer->facts;
  for (int index = facts->first_interned; index < facts->symbol_count; index++) {
    struct symbol *symbol = &facts->symbols[index];
    if (symbol->interned_at != address)
      continue;
    if (symbol->kind != kind || symbol->mask != mask || !same_value(symbol->parent, parent))
      symbol->kind = SYMBOL_FREE;
    kill(state, index);
    return (struct symbolic_value){(uint8_t)index, 0, 0};
  }
  if (facts->symbol_count == SYMBOLS_MAX)
    return unknown;
  facts->symbols[facts->symbol_count] = (struct symbol){kind, parent, mask, address};
  return (struct symbolic_value){(uint8_t)facts->symbol_count++, 0, 0};
}

static struct symbolic_value loaded(struct transfer *transfer, struct abstract_state *state, uint64_t address,
                                    enum symbol_kind kind, struct symbolic_value parent, uint64_t mask) {
  bool wanted = transfer->facts->symbol_count < SYMBOLS_MAX - SYMBOLS_KEPT && address < transfer->loads_before &&
                transfer->loads_before - address <= LOADING_BYTES;
  return wanted ? intern(transfer, state, address, kind, parent, (int64_t)mask) : unknown;
}

static void set(struct transfer *transfer, struct abstract_state *state, uint64_t address, int to,
                struct symbolic_value value) {
  if (to == transfer->architecture->sp) {
    /* Gives the unknown value a symbol: later offsets relative to the symbol are known. */
    if (value.symbol == 0 || value.shift != 0)
      value = intern(transfer, state, address, SYMBOL_FREE, unknown, 0);
    if (value.symbol == 0)
      transfer->failed = true;
    struct symbolic_value before = state->registers[transfer->architecture->sp];
    int kept = 0;
    if (value.symbol == before.symbol && value.offset > before.offset) {
      for (int index = 0; index < state->cell_count; index++) {
        const struct abstract_cell *cell = &state->cells[index];
        if (cell->where.symbol != value.symbol || cell->where.offset >= value.offset)
          state->cells[kept++] = *cell;
      }
      state->cell_count = (uint8_t)kept;
    }
  }
  state->registers[to] = value;
}

static void store(struct abstract_state *state, struct symbolic_value where, int64_t amount,
                  struct symbolic_value what) {
  if (where.symbol == 0 || where.shift != 0)
    return;
  where = symbolic_plus(where, amount);
  int kept = 0;
  for (int index = 0; index < state->cell_count; index++) {
    int64_t distance = (int64_t)state->cells[index].where.offset - where.offset;
    if (state->cells[index].where.symbol != where.symbol || distance <= -8 || distance >= 8)
      state->cells[kept++] = state->cells[index];
  }
  state->cell_count = (uint8_t)kept;
  if (what.symbol != 0 && what.shift == 0 && kept < CELLS_MAX)
    state->cells[state->cell_count++] = (struct abstract_cell){where, what};
}

static struct symbolic_value load(const struct abstract_state *state, struct symbolic_value where, int64_t amount) {
  if (where.symbol != 0 && where.shift == 0)
    for (int index = 0; index < state->cell_count; index++)
      if (state->cells[index].where.symbol == where.symbol && state->cells[index].where.offset == where.offset + amount)
        return state->cells[index].what;
  return unknown;
}

/* Forgets the objects reachable from the address VALUE, which a callee might change. */
static void escape(struct abstract_state *state, struct symbolic_value value) {
  if (value.symbol == 0 || value.shift != 0)
    return;
  for (int index = 0; index < state->cell_count; index++) {
    struct abstract_cell cell = state->cells[index];
    int64_t distance = (int64_t)cell.where.offset - value.offset;
    if (cell.where.symbol != value.symbol || distance < 0 || distance >= ESCAPED_BYTES)
      continue;
    state->cells[index] = state->cells[--state->cell_count];
    escape(state, cell.what);
    index = -1;
  }
}

void cunwind_transfer(struct transfer *transfer, struct abstract_state *state, uint64_t address,
                      const struct code_operation *operation) {
  struct symbolic_value *registers = state->registers;
  struct symbolic_value value;
  int to = operation->to;
  switch (operation->kind) {
  case CODE_SET:
  case CODE_SET_NUMBER:
    value = operation->from == UNWIND_NO_REGISTER ? unknown : registers[operation->from];
    if (value.shift != 0 && operation->amount != 0)
      value = unknown;
    if (value.symbol != 0)
      value = symbolic_plus(value, operation->amount);
    set(transfer, state, address, to, value);
    break;
  case CODE_LOWER:
    value = registers[to];
    set(transfer, state, address, to,
        value.symbol == 0 || value.shift != 0 ? unknown : intern(transfer, state, address, SYMBOL_LOWERED, value, 0));
    break;
  case CODE_ALIGN:
    value = registers[to];
    set(transfer, state, address, to,
        value.symbol == 0 || value.shift != 0
            ? unknown
            : intern(transfer, state, address, SYMBOL_ALIGNED, value, operation->amount));
    break;
  case CODE_SHIFT_RIGHT:
    value = registers[to];
    if (value.shift != 0)
      value = unknown;
    value.shift = value.symbol == 0 ? 0 : (uint8_t)operation->amount;
    set(transfer, state, address, to, value);
    break;
  case CODE_SHIFT_LEFT:
    value = registers[to];
    if (value.symbol == 0 || value.shift != operation->amount) {
      set(transfer, state, address, to, unknown);
    } else {
      value.shift = 0;
      set(transfer, state, address, to,
          intern(transfer, state, address, SYMBOL_ALIGNED, value, (int64_t)(UINT64_MAX << operation->amount)));
    }
    break;
  case CODE_LOAD:
    value = load(state, registers[operation->from], operation->amount);
    if (value.symbol == 0 && registers[operation->from].symbol != 0 && registers[operation->from].shift == 0) {
      struct symbolic_value where = symbolic_plus(registers[operation->from], operation->amount);
      value = loaded(transfer, state, address, SYMBOL_LOADED, where, 0);
    }
    set(transfer, state, address, to, value);
    break;
  case CODE_LOAD_FIXED:
    set(transfer, state, address, to,
        loaded(transfer, state, address, SYMBOL_LOADED_FIXED, unknown, operation->target));
    break;
  case CODE_SET_FIXED:
    set(transfer, state, address, to, loaded(transfer, state, address, SYMBOL_FIXED, unknown, operation->target));
    break;
  case CODE_STORE:
    store(state, registers[to], operation->amount,
          operation->from == UNWIND_NO_REGISTER ? unknown : registers[operation->from]);
    break;
  case CODE_CLOBBER:
    for (int number = 0; number < transfer->architecture->general_registers; number++)
      if ((uint64_t)operation->amount >> number & 1)
        registers[number] = unknown;
    break;
  case CODE_CALL:
  case CODE_CALL_REGISTER:
  case CODE_CALL_MEMORY:
  case CODE_CALL_FIXED:
    for (int number = 0; number < transfer->architecture->general_registers; number++)
      if (transfer->architecture->call_clobbered >> number & 1)
        escape(state, registers[number]);
    __attribute__((fallthrough));
  case CODE_SYSTEM_CALL:
    for (int number = 0; number < transfer->architecture->general_registers; number++)
      if (transfer->architecture->call_clobbered >> number & 1)
        registers[number] = unknown;
    break;
  default:
    break;
  }
}

static int joined_symbol(struct transfer *transfer, uint64_t address) {
  struct frame_facts *facts = transfer->facts;
  uint64_t interned_at = ~address;
  for (int index = facts->first_interned; index < facts->symbol_count; index++)
    if (facts->symbols[index].interned_at == interned_at)
      return index;
  if (facts->symbol_count == SYMBOLS_MAX) {
    transfer->failed = true;
    return 0;
  }
  facts->symbols[facts->symbol_count] = (struct symbol){SYMBOL_FREE, unknown, 0, interned_at};
  return facts->symbol_count++;
}

bool cunwind_state_join(struct transfer *transfer, struct abstract_state *into, const struct abstract_state *state,
                        uint64_t address) {
  if (!into->reached) {
    *into = *state;
    into->reached = true;
    return true;
  }
  bool changed = false;
  for (int number = 0; number < transfer->architecture->general_registers; number++) {
    struct symbolic_value *value = &into->registers[number];
    if (value->symbol == 0 || same_value(*value, state->registers[number]))
      continue;
    struct symbolic_value joined = unknown;
    if (number == transfer->architecture->sp) {
      int symbol = joined_symbol(transfer, address);
      if (value->symbol == symbol)
        continue;
      joined.symbol = (uint8_t)symbol;
    }
    *value = joined;
    changed = true;
  }
  int kept = 0;
  for (int index = 0; index < into->cell_count; index++) {
    struct abstract_cell cell = into->cells[index];
    if (same_value(load(state, cell.where, 0), cell.what))
      into->cells[kept++] = cell;
  }
  changed |= kept != into->cell_count;
  into->cell_count = (uint8_t)kept;
  return changed;
}
