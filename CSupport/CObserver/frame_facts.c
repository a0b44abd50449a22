#include "frame_facts.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <string.h>

/* Bounds on the work for one function. */
enum { CODE_BYTES_MAX = 24 << 10, BLOCKS = 512, INSTRUCTIONS_MAX = 24000, FIRST_MADE_BASE = 1 + CODE_REGISTERS };

/* A place that is gone to from elsewhere, and what holds there. */
static struct {
  uint64_t address;
  bool dirty; /* what follows from it is still to be found */
} blocks[BLOCKS];
static struct fact_state states[BLOCKS];
static int block_count;

/* One function that is gone through. */
struct exploration {
  struct code_range range, cold;
  uint64_t pc;
  bool interrupted;
  int instructions;
  bool failed;
  struct fact_state at_calls, at_jumps; /* what holds at all calls, and at all jumps to unknown places of the function */
  struct frame_facts *facts;
};

static bool within(struct code_range range, uint64_t address) { return address >= range.start && address < range.end; }

static size_t decode(struct exploration *exploration, uint64_t address, struct code_operation *operations, int *count) {
  uint8_t code[CODE_BYTES] = {0};
  *count = 0;
  if (++exploration->instructions > INSTRUCTIONS_MAX || !observer_walk_read(address, code, CODE_BYTES / 2)) {
    exploration->failed = true;
    return 0;
  }
  size_t length = code_decode(code, address, operations, count);
  if (length == 0)
    exploration->failed = true;
  return length;
}

static void add_block(struct exploration *exploration, uint64_t address) {
  if (!within(exploration->range, address) && !within(exploration->cold, address))
    return;
  int low = 0, high = block_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (blocks[middle].address < address)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < block_count && blocks[low].address == address)
    return;
  if (block_count == BLOCKS) {
    exploration->failed = true;
    return;
  }
  memmove(&blocks[low + 1], &blocks[low], (size_t)(block_count - low) * sizeof blocks[0]);
  blocks[low].address = address;
  blocks[low].dirty = false;
  block_count++;
}

/* The block that begins at ADDRESS, or, if it need not BEGIN there, the one that ADDRESS is in; -1 if there is none. */
static int block_of(uint64_t address, bool begin) {
  int low = 0, high = block_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (blocks[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 || (begin && blocks[low - 1].address != address) ? -1 : low - 1;
}

static void find_blocks(struct exploration *exploration, struct code_range range) {
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  add_block(exploration, range.start);
  for (uint64_t address = range.start; address < range.end && !exploration->failed;) {
    size_t length = decode(exploration, address, operations, &count);
    address += length;
    for (int index = 0; index < count; index++) {
      enum code_kind kind = operations[index].kind;
      if (kind == CODE_BRANCH || kind == CODE_JUMP)
        add_block(exploration, operations[index].target);
      if (kind == CODE_JUMP || kind == CODE_JUMP_SLOT || kind == CODE_JUMP_ANYWHERE || kind == CODE_END)
        add_block(exploration, address);
    }
  }
}

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
  where.offset += (int32_t)amount;
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

static void apply(struct exploration *exploration, struct fact_state *state, uint64_t address,
                  const struct code_operation *operation) {
  struct fact_value *registers = state->registers;
  struct fact_value value;
  int to = operation->to;
  switch (operation->kind) {
  case CODE_SET:
    value = operation->from == CODE_NO_REGISTER ? unknown : registers[operation->from];
    if (value.shift != 0 && operation->amount != 0)
      value = unknown;
    value.offset += value.base == 0 ? 0 : (int32_t)operation->amount;
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
          made(exploration, state, address, FACT_ALIGNED, value, -(INT64_C(1) << operation->amount)));
    }
    break;
  case CODE_LOAD:
    set(exploration, state, address, to, load(state, registers[operation->from], operation->amount));
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
  case CODE_SYSTEM_CALL:
    for (int number = 0; number < CODE_REGISTERS; number++)
      if (code_volatile_registers() >> number & 1)
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

/* Keeps in INTO, which belongs to ADDRESS, what STATE says as well. Returns whether INTO changed. */
static bool join(struct exploration *exploration, struct fact_state *into, const struct fact_state *state,
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

static void go_to(struct exploration *exploration, uint64_t address, const struct fact_state *state) {
  int block = block_of(address, true);
  if (block >= 0 && join(exploration, &states[block], state, address))
    blocks[block].dirty = true;
}

/* Goes on from the beginning of a block to its end. */
static void explore_block(struct exploration *exploration, int block) {
  struct code_operation operations[CODE_OPERATIONS];
  struct frame_facts *facts = exploration->facts;
  struct fact_state state = states[block];
  int count;
  bool goes_on = true;
  uint64_t address = blocks[block].address;
  blocks[block].dirty = false;
  while (goes_on && !exploration->failed) {
    if (address == exploration->pc && exploration->interrupted)
      join(exploration, &facts->state, &state, 0);
    size_t length = decode(exploration, address, operations, &count);
    uint64_t next = address + length;
    for (int index = 0; index < count; index++) {
      const struct code_operation *operation = &operations[index];
      bool calls = operation->kind == CODE_CALL || operation->kind == CODE_SYSTEM_CALL;
      if (calls && next == exploration->pc && !exploration->interrupted)
        join(exploration, &facts->state, &state, 0);
      apply(exploration, &state, address, operation);
      if (operation->kind == CODE_BRANCH || operation->kind == CODE_JUMP)
        go_to(exploration, operation->target, &state);
      if (operation->kind == CODE_CALL)
        join(exploration, &exploration->at_calls, &state, 1);
      if (operation->kind == CODE_JUMP_ANYWHERE) {
        struct fact_value sp = state.registers[CODE_SP];
        bool leaves = sp.base == 1 + CODE_SP && sp.offset == 0;
        facts->jumps_away |= leaves;
        if (!leaves)
          join(exploration, &exploration->at_jumps, &state, 2);
      }
      goes_on &= operation->kind != CODE_JUMP && operation->kind != CODE_JUMP_SLOT &&
                 operation->kind != CODE_JUMP_ANYWHERE && operation->kind != CODE_END;
    }
    address = next;
    if (goes_on && block_of(address, true) >= 0) {
      go_to(exploration, address, &state);
      goes_on = false;
    }
    goes_on &= within(exploration->range, address) || within(exploration->cold, address);
  }
}

static void explore(struct exploration *exploration) {
  for (bool again = true; again && !exploration->failed;) {
    again = false;
    for (int block = 0; block < block_count && !exploration->failed; block++)
      if (blocks[block].dirty) {
        explore_block(exploration, block);
        again = true;
      }
  }
}

bool observer_frame_facts(struct code_range range, struct code_range cold, uint64_t pc, bool interrupted,
                          struct frame_facts *facts) {
  struct exploration exploration = {.range = range, .cold = cold, .pc = pc, .interrupted = interrupted, .facts = facts};
  memset(facts, 0, sizeof *facts);
  facts->base_count = FIRST_MADE_BASE;
  block_count = 0;
  if (range.end - range.start > CODE_BYTES_MAX || cold.end - cold.start > CODE_BYTES_MAX)
    return false;
  find_blocks(&exploration, range);
  if (cold.end > cold.start)
    find_blocks(&exploration, cold);
  for (int block = 0; block < block_count; block++)
    states[block].reached = false;
  struct fact_state entry = {.reached = true};
  for (int number = 0; number < CODE_REGISTERS; number++)
    entry.registers[number] = (struct fact_value){(uint8_t)(1 + number), 0, 0};
  go_to(&exploration, range.start, &entry);
  explore(&exploration);
  /* What a table of addresses leads to and what catches an exception is gone to from nowhere that is seen. The frame is as it
   * is at jumps by such tables, or at the function's calls. */
  int block = block_of(interrupted ? pc : pc - 1, false);
  if (!facts->state.reached && block >= 0 && !states[block].reached) {
    bool catches = range.catches || cold.catches || !exploration.at_jumps.reached;
    if (exploration.at_jumps.reached)
      go_to(&exploration, blocks[block].address, &exploration.at_jumps);
    if (exploration.at_calls.reached && catches)
      go_to(&exploration, blocks[block].address, &exploration.at_calls);
    explore(&exploration);
  }
  return !exploration.failed && (facts->state.reached || pc == 0);
}

void observer_fact_learn(struct fact_values *values, struct fact_value value, uint64_t number) {
  if (value.base == 0 || value.shift != 0)
    return;
  uint64_t base = number - (uint64_t)(int64_t)value.offset;
  if (!(values->known >> value.base & 1)) {
    values->values[value.base] = base;
    values->known |= UINT64_C(1) << value.base;
  } else if (values->values[value.base] == base) {
    values->confirmed++;
  } else {
    values->contradicted = true;
  }
}

bool observer_fact_value(const struct fact_values *values, struct fact_value value, uint64_t *number) {
  if (value.base == 0 || value.shift != 0 || !(values->known >> value.base & 1))
    return false;
  *number = values->values[value.base] + (uint64_t)(int64_t)value.offset;
  return true;
}

void observer_fact_conclude(struct walk *walk, const struct frame_facts *facts, struct fact_values *values) {
  uint64_t number, word;
  uint64_t bases_done = 0;
  uint32_t slots_done = 0;
  for (bool again = true; again;) {
    again = false;
    for (int index = FIRST_MADE_BASE; index < facts->base_count; index++) {
      const struct fact_base *base = &facts->bases[index];
      if (base->kind != FACT_ALIGNED || (bases_done >> index & 1) || !observer_fact_value(values, base->parent, &number))
        continue;
      bases_done |= UINT64_C(1) << index;
      observer_fact_learn(values, (struct fact_value){(uint8_t)index, 0, 0}, number & (uint64_t)base->mask);
      again = true;
    }
    for (int index = 0; index < facts->state.slot_count; index++) {
      const struct fact_slot *slot = &facts->state.slots[index];
      if ((slots_done >> index & 1) || !observer_fact_value(values, slot->where, &number))
        continue;
      slots_done |= UINT32_C(1) << index;
      if (observer_walk_word(walk, number, &word))
        observer_fact_learn(values, slot->what, word);
      again = true;
    }
  }
}

#endif
