#include "exploration.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* How far an address that is passed on is taken to lead, and how much code before a call is looked at for what was
 * loaded. */
enum { ESCAPED_BYTES = 256, LOADING_BYTES = 96 };

/* Bases that are kept for what is more important than what was loaded. */
enum { BASES_KEPT = 16 };

static const struct fact_value unknown = {0, 0, 0};

static bool same_value(struct fact_value one, struct fact_value other) {
  return one.base == other.base && one.shift == other.shift && one.offset == other.offset;
}

/* Nothing in STATE is relative to BASE any more. */
static void renew(struct fact_state *state, int base) {
  for (int number = 0; number < CODE_REGISTERS; number++)
    if (state->registers[number].base == base)
      state->registers[number] = unknown;
  int kept = 0;
  for (int index = 0; index < state->slot_count; index++)
    if (state->slots[index].where.base != base && state->slots[index].what.base != base)
      state->slots[kept++] = state->slots[index];
  state->slot_count = (uint8_t)kept;
}

/* A base that the instruction at ADDRESS makes in STATE, the same one whenever it is gone through. */
static struct fact_value made(struct exploration *exploration, struct fact_state *state, uint64_t address,
                              enum fact_base_kind kind, struct fact_value parent, int64_t mask) {
  struct frame_facts *facts = exploration->facts;
  for (int index = FIRST_MADE_BASE; index < facts->base_count; index++) {
    struct fact_base *base = &facts->bases[index];
    if (base->made_at != address)
      continue;
    if (base->kind != kind || base->mask != mask || !same_value(base->parent, parent))
      base->kind = FACT_FREE;
    renew(state, index);
    return (struct fact_value){(uint8_t)index, 0, 0};
  }
  if (facts->base_count == FACT_BASES)
    return unknown;
  facts->bases[facts->base_count] = (struct fact_base){kind, parent, mask, address};
  return (struct fact_value){(uint8_t)facts->base_count++, 0, 0};
}

/* The same for what is loaded from memory, near the call only. */
static struct fact_value loaded(struct exploration *exploration, struct fact_state *state, uint64_t address,
                                enum fact_base_kind kind, struct fact_value parent, uint64_t mask) {
  bool wanted = exploration->loads && exploration->facts->base_count < FACT_BASES - BASES_KEPT &&
                address < exploration->pc && exploration->pc - address <= LOADING_BYTES;
  return wanted ? made(exploration, state, address, kind, parent, (int64_t)mask) : unknown;
}

static void set(struct exploration *exploration, struct fact_state *state, uint64_t address, int to,
                struct fact_value value) {
  if (to == CODE_SP) {
    /* Whatever it is: what is relative to it from now on is so to the same thing. */
    if (value.base == 0 || value.shift != 0)
      value = made(exploration, state, address, FACT_FREE, unknown, 0);
    if (value.base == 0)
      exploration->failed = true;
    struct fact_value before = state->registers[CODE_SP];
    int kept = 0;
    if (value.base == before.base && value.offset > before.offset) {
      for (int index = 0; index < state->slot_count; index++) {
        const struct fact_slot *slot = &state->slots[index];
        if (slot->where.base != value.base || slot->where.offset >= value.offset)
          state->slots[kept++] = *slot;
      }
      state->slot_count = (uint8_t)kept;
    }
  }
  state->registers[to] = value;
}

static void store(struct fact_state *state, struct fact_value where, int64_t amount, struct fact_value what) {
  if (where.base == 0 || where.shift != 0)
    return;
  where = observer_fact_moved(where, amount);
  int kept = 0;
  for (int index = 0; index < state->slot_count; index++) {
    int64_t distance = (int64_t)state->slots[index].where.offset - where.offset;
    if (state->slots[index].where.base != where.base || distance <= -8 || distance >= 8)
      state->slots[kept++] = state->slots[index];
  }
  state->slot_count = (uint8_t)kept;
  if (what.base != 0 && what.shift == 0 && kept < FACT_SLOTS)
    state->slots[state->slot_count++] = (struct fact_slot){where, what};
}

static struct fact_value load(const struct fact_state *state, struct fact_value where, int64_t amount) {
  if (where.base != 0 && where.shift == 0)
    for (int index = 0; index < state->slot_count; index++)
      if (state->slots[index].where.base == where.base && state->slots[index].where.offset == where.offset + amount)
        return state->slots[index].what;
  return unknown;
}

/* Somebody else gets to know the address VALUE: what is stored there may change, and what it is the address of, too. */
static void escape(struct fact_state *state, struct fact_value value) {
  if (value.base == 0 || value.shift != 0)
    return;
  for (int index = 0; index < state->slot_count; index++) {
    struct fact_slot slot = state->slots[index];
    int64_t distance = (int64_t)slot.where.offset - value.offset;
    if (slot.where.base != value.base || distance < 0 || distance >= ESCAPED_BYTES)
      continue;
    state->slots[index] = state->slots[--state->slot_count];
    escape(state, slot.what);
    index = -1;
  }
}

void observer_state_apply(struct exploration *exploration, struct fact_state *state, uint64_t address,
                  const struct code_operation *operation) {
  struct fact_value *registers = state->registers;
  struct fact_value value;
  int to = operation->to;
  switch (operation->kind) {
  case CODE_SET:
    value = operation->from == CODE_NO_REGISTER ? unknown : registers[operation->from];
    if (value.shift != 0 && operation->amount != 0)
      value = unknown;
    if (value.base != 0)
      value = observer_fact_moved(value, operation->amount);
    set(exploration, state, address, to, value);
    break;
  case CODE_LOWER:
    value = registers[to];
    set(exploration, state, address, to,
        value.base == 0 || value.shift != 0 ? unknown : made(exploration, state, address, FACT_LOWERED, value, 0));
    break;
  case CODE_ALIGN:
    value = registers[to];
    set(exploration, state, address, to,
        value.base == 0 || value.shift != 0 ? unknown
                                            : made(exploration, state, address, FACT_ALIGNED, value, operation->amount));
    break;
  case CODE_SHIFT_RIGHT:
    value = registers[to];
    if (value.shift != 0)
      value = unknown;
    value.shift = value.base == 0 ? 0 : (uint8_t)operation->amount;
    set(exploration, state, address, to, value);
    break;
  case CODE_SHIFT_LEFT:
    value = registers[to];
    if (value.base == 0 || value.shift == 0 || value.shift != operation->amount) {
      set(exploration, state, address, to, unknown);
    } else {
      value.shift = 0;
      set(exploration, state, address, to,
          made(exploration, state, address, FACT_ALIGNED, value, (int64_t)(UINT64_MAX << operation->amount)));
    }
    break;
  case CODE_LOAD:
    value = load(state, registers[operation->from], operation->amount);
    if (value.base == 0 && registers[operation->from].base != 0 && registers[operation->from].shift == 0) {
      struct fact_value where = observer_fact_moved(registers[operation->from], operation->amount);
      value = loaded(exploration, state, address, FACT_LOADED, where, 0);
    }
    set(exploration, state, address, to, value);
    break;
  case CODE_LOAD_FIXED:
    set(exploration, state, address, to,
        loaded(exploration, state, address, FACT_LOADED_FIXED, unknown, operation->target));
    break;
  case CODE_SET_FIXED:
    set(exploration, state, address, to, loaded(exploration, state, address, FACT_FIXED, unknown, operation->target));
    break;
  case CODE_STORE:
    store(state, registers[to], operation->amount,
          operation->from == CODE_NO_REGISTER ? unknown : registers[operation->from]);
    break;
  case CODE_CLOBBER:
    for (int number = 0; number < CODE_REGISTERS; number++)
      if ((uint64_t)operation->amount >> number & 1)
        registers[number] = unknown;
    break;
  case CODE_CALL:
  case CODE_CALL_REGISTER:
  case CODE_CALL_MEMORY:
  case CODE_CALL_FIXED:
    for (int number = 0; number < CODE_REGISTERS; number++)
      if (observer_code_volatile_registers() >> number & 1)
        escape(state, registers[number]);
    __attribute__((fallthrough));
  case CODE_SYSTEM_CALL:
    for (int number = 0; number < CODE_REGISTERS; number++)
      if (observer_code_volatile_registers() >> number & 1)
        registers[number] = unknown;
    break;
  default:
    break;
  }
}

/* The base of stack pointers that differ where ways meet at ADDRESS. */
static int joined_base(struct exploration *exploration, uint64_t address) {
  struct frame_facts *facts = exploration->facts;
  uint64_t made_at = ~address; /* no instruction is there */
  for (int index = FIRST_MADE_BASE; index < facts->base_count; index++)
    if (facts->bases[index].made_at == made_at)
      return index;
  if (facts->base_count == FACT_BASES) {
    exploration->failed = true;
    return 0;
  }
  facts->bases[facts->base_count] = (struct fact_base){FACT_FREE, unknown, 0, made_at};
  return facts->base_count++;
}

bool observer_state_join(struct exploration *exploration, struct fact_state *into, const struct fact_state *state,
                 uint64_t address) {
  if (!into->reached) {
    *into = *state;
    into->reached = true;
    return true;
  }
  bool changed = false;
  for (int number = 0; number < CODE_REGISTERS; number++) {
    struct fact_value *value = &into->registers[number];
    if (value->base == 0 || same_value(*value, state->registers[number]))
      continue;
    struct fact_value joined = unknown;
    if (number == CODE_SP) {
      int base = joined_base(exploration, address);
      if (value->base == base)
        continue;
      joined.base = (uint8_t)base;
    }
    *value = joined;
    changed = true;
  }
  int kept = 0;
  for (int index = 0; index < into->slot_count; index++) {
    struct fact_slot slot = into->slots[index];
    if (same_value(load(state, slot.where, 0), slot.what))
      into->slots[kept++] = slot;
  }
  changed |= kept != into->slot_count;
  into->slot_count = (uint8_t)kept;
  return changed;
}

#endif
