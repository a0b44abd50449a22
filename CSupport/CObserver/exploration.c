#include "exploration.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "function_start.h"
#include "observer_context.h"

#include <string.h>

/* Bounds on the work for one function. */
enum { CODE_BYTES_MAX = 24 << 10, BLOCKS = 512, INSTRUCTIONS_MAX = 24000 };

/* Answers that are remembered. */
enum { REMEMBERED = 128 };

/* A place that is gone to from elsewhere. */
struct block {
  uint64_t address;
  bool dirty; /* what follows from it is still to be found */
};

/* Whether one place leads to another. */
struct remembered {
  uint64_t from, to, other;
  bool comes, grows;
};

/* The places of the function that is gone through, with what holds at each, and answers. */
static struct room {
  struct block blocks[BLOCKS];
  struct fact_state states[BLOCKS];
  int block_count;
  struct remembered remembered[REMEMBERED];
} rooms[OBSERVER_CONTEXTS_MAX];

static struct room *here(void) { return &rooms[observer_context]; }

static bool within(struct code_range range, uint64_t address) { return address >= range.start && address < range.end; }

static size_t decode(struct exploration *exploration, uint64_t address, struct code_operation *operations, int *count) {
  *count = 0;
  size_t length =
      ++exploration->instructions > INSTRUCTIONS_MAX ? 0 : observer_code_read(address, operations, count);
  if (length == 0)
    exploration->failed = true;
  return length;
}

static void add_block(struct exploration *exploration, uint64_t address) {
  if (!within(exploration->range, address) && !within(exploration->cold, address))
    return;
  int low = 0, high = here()->block_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (here()->blocks[middle].address < address)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < here()->block_count && here()->blocks[low].address == address)
    return;
  if (here()->block_count == BLOCKS) {
    exploration->failed = true;
    return;
  }
  memmove(&here()->blocks[low + 1], &here()->blocks[low], (size_t)(here()->block_count - low) * sizeof here()->blocks[0]);
  here()->blocks[low].address = address;
  here()->blocks[low].dirty = false;
  here()->block_count++;
}

/* The block that begins at ADDRESS, or, if it need not BEGIN there, the one that ADDRESS is in; -1 if there is none. */
static int block_of(uint64_t address, bool begin) {
  int low = 0, high = here()->block_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (here()->blocks[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 || (begin && here()->blocks[low - 1].address != address) ? -1 : low - 1;
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
      if (!code_goes_on(kind))
        add_block(exploration, address);
    }
  }
}

static void go_to(struct exploration *exploration, uint64_t address, const struct fact_state *state) {
  int block = block_of(address, true);
  if (block >= 0 && observer_state_join(exploration, &here()->states[block], state, address))
    here()->blocks[block].dirty = true;
}

/* Goes on from the beginning of a block to its end. */
static void explore_block(struct exploration *exploration, int block) {
  struct code_operation operations[CODE_OPERATIONS];
  struct frame_facts *facts = exploration->facts;
  struct fact_state state = here()->states[block];
  int count;
  bool goes_on = true;
  uint64_t address = here()->blocks[block].address;
  here()->blocks[block].dirty = false;
  while (goes_on && !exploration->failed) {
    if (address == exploration->pc && exploration->interrupted)
      observer_state_join(exploration, &facts->state, &state, 0);
    size_t length = decode(exploration, address, operations, &count);
    uint64_t next = address + length;
    for (int index = 0; index < count; index++) {
      const struct code_operation *operation = &operations[index];
      bool calls = code_is_call(operation->kind) || operation->kind == CODE_SYSTEM_CALL;
      if (calls && next == exploration->pc && !exploration->interrupted) {
        observer_state_join(exploration, &facts->state, &state, 0);
        facts->call = *operation;
      }
      observer_state_apply(exploration, &state, address, operation);
      struct fact_value sp = state.registers[CODE_SP];
      bool leaves = sp.base == 1 + CODE_SP && sp.offset == 0;
      if (operation->kind == CODE_BRANCH || operation->kind == CODE_JUMP) {
        go_to(exploration, operation->target, &state);
        exploration->jumps.with_frame |= operation->target == exploration->target && !leaves;
      }
      if (code_is_call(operation->kind))
        observer_state_join(exploration, &exploration->at_calls, &state, 1);
      if (operation->kind == CODE_JUMP_ANYWHERE) {
        exploration->jumps.anywhere |= leaves;
        if (!leaves)
          observer_state_join(exploration, &exploration->at_jumps, &state, 2);
      }
      goes_on &= code_goes_on(operation->kind);
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
    for (int block = 0; block < here()->block_count && !exploration->failed; block++)
      if (here()->blocks[block].dirty) {
        explore_block(exploration, block);
        again = true;
      }
  }
}

/* Takes stock of the function's blocks. */
static void prepare(struct exploration *exploration) {
  struct code_range range = exploration->range, cold = exploration->cold;
  memset(exploration->facts, 0, sizeof *exploration->facts);
  exploration->facts->base_count = FIRST_MADE_BASE;
  here()->block_count = 0;
  exploration->failed = range.end - range.start > CODE_BYTES_MAX || cold.end - cold.start > CODE_BYTES_MAX;
  if (exploration->failed)
    return;
  find_blocks(exploration, range);
  if (cold.end > cold.start)
    find_blocks(exploration, cold);
}

/* Goes on from the function's entry. */
static void explore_from_entry(struct exploration *exploration) {
  prepare(exploration);
  for (int block = 0; block < here()->block_count; block++)
    here()->states[block].reached = false;
  struct fact_state entry = {.reached = true};
  for (int number = 0; number < CODE_REGISTERS; number++)
    entry.registers[number] = (struct fact_value){(uint8_t)(1 + number), 0, 0};
  go_to(exploration, exploration->range.start, &entry);
  explore(exploration);
}

void observer_explore(struct exploration *exploration) {
  explore_from_entry(exploration);
  /* What a table of addresses leads to and what catches an exception is gone to from nowhere that is seen. The frame is
   * as it is at jumps by such tables, or at the function's calls. */
  int block = block_of(exploration->interrupted ? exploration->pc : exploration->pc - 1, false);
  if (!exploration->facts->state.reached && block >= 0 && !here()->states[block].reached) {
    bool catches = exploration->range.catches || exploration->cold.catches || !exploration->at_jumps.reached;
    if (exploration->at_jumps.reached)
      go_to(exploration, here()->blocks[block].address, &exploration->at_jumps);
    if (exploration->at_calls.reached && catches)
      go_to(exploration, here()->blocks[block].address, &exploration->at_calls);
    exploration->facts->origin = exploration->at_jumps.reached ? FACTS_BY_TABLE : FACTS_BY_CALLS;
    explore(exploration);
  }
}

bool observer_function_jumps(struct code_range range, uint64_t target, struct function_jumps *jumps) {
  static struct frame_facts all_facts[OBSERVER_CONTEXTS_MAX];
  struct frame_facts *facts = &all_facts[observer_context];
  struct exploration exploration = {.range = range, .facts = facts, .target = target};
  explore_from_entry(&exploration);
  *jumps = exploration.jumps;
  return !exploration.failed;
}

/* Goes from the block BLOCK to its end. Returns whether it comes to TO, and marks the blocks that are gone to. */
static bool go_through(struct exploration *exploration, int block, uint64_t to, bool *grows) {
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  bool comes = false;
  uint64_t address = here()->blocks[block].address;
  bool goes_on = true;
  while (goes_on && !exploration->failed && (within(exploration->range, address) || within(exploration->cold, address))) {
    address += decode(exploration, address, operations, &count);
    comes |= address == to;
    for (int index = 0; index < count; index++) {
      const struct code_operation *operation = &operations[index];
      bool sets = operation->kind == CODE_SET && operation->from != CODE_SP && operation->from != CODE_FRAME_POINTER;
      *grows |= operation->to == CODE_SP && (operation->kind == CODE_LOWER || sets);
      comes |= operation->kind == CODE_JUMP_ANYWHERE;
      int next = operation->kind == CODE_BRANCH || operation->kind == CODE_JUMP ? block_of(operation->target, true) : -1;
      if (next >= 0)
        here()->blocks[next].dirty |= !here()->states[next].reached;
      goes_on &= code_goes_on(operation->kind);
    }
    int next = goes_on ? block_of(address, true) : -1;
    if (next >= 0) {
      here()->blocks[next].dirty |= !here()->states[next].reached;
      goes_on = false;
    }
  }
  return comes;
}

static bool find_whether_comes(struct code_range range, struct code_range other, uint64_t from, uint64_t to, bool *grows) {
  static struct frame_facts all_facts[OBSERVER_CONTEXTS_MAX];
  struct frame_facts *facts = &all_facts[observer_context];
  struct exploration exploration = {.range = range, .cold = other, .facts = facts};
  bool comes = false;
  *grows = false;
  prepare(&exploration);
  add_block(&exploration, from);
  for (int block = 0; block < here()->block_count; block++) {
    here()->blocks[block].dirty = here()->blocks[block].address == from;
    here()->states[block].reached = false;
  }
  for (int block = 0; block < here()->block_count && !exploration.failed;) {
    if (!here()->blocks[block].dirty) {
      block++;
      continue;
    }
    here()->blocks[block].dirty = false;
    here()->states[block].reached = true;
    comes |= go_through(&exploration, block, to, grows);
    block = 0;
  }
  *grows |= exploration.failed;
  return comes || exploration.failed;
}

bool observer_function_comes(struct code_range range, struct code_range other, uint64_t from, uint64_t to, bool *grows) {
  struct remembered *memory = &here()->remembered[(from ^ from >> 8 ^ to * 3) % REMEMBERED];
  if (memory->from != from || memory->to != to || memory->other != other.start) {
    *memory = (struct remembered){.from = from, .to = to, .other = other.start};
    memory->comes = find_whether_comes(range, other, from, to, &memory->grows);
  }
  *grows = memory->grows;
  return memory->comes;
}

void observer_explorations_forget(void) { memset(here()->remembered, 0, sizeof rooms[0].remembered); }

#endif
