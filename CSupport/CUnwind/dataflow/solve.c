#include "solve.h"

#include "transfer.h"

#include <string.h>

enum { CODE_BYTES_MAX = 24 << 10, BLOCKS = 512, INSTRUCTIONS_MAX = 24000 };

enum { REACHED_REMEMBERED = 128, FACTS_REMEMBERED = 32 };

struct block {
  uint64_t address;
  bool dirty; /* the block's successors must be recomputed */
};

struct remembered_reach {
  uint64_t from, to, other;
  bool reaches, grows;
};

struct remembered_facts {
  struct code_range range, cold;
  uint64_t pc;
  bool interrupted, loads, has_facts;
  struct frame_facts facts;
};

struct solver {
  struct block blocks[BLOCKS];
  struct abstract_state states[BLOCKS];
  int block_count;
  struct remembered_reach reached[REACHED_REMEMBERED];
  struct remembered_facts facts[FACTS_REMEMBERED];
  struct frame_facts unwanted; /* receives facts that an analysis does not need */
};

struct analysis {
  struct unwinder *unwinder;
  struct transfer transfer;
  struct code_range range, cold;
  uint64_t pc;
  bool interrupted;
  int instructions;
  bool failed;
  struct abstract_state at_calls, at_jumps; /* joined states after all calls, and at all jumps through tables */
  uint64_t target;
  struct function_jumps jumps;
};

size_t cunwind_solver_bytes(void) { return sizeof(struct solver); }

void cunwind_solver_forget(struct unwinder *unwinder) {
  memset(unwinder->solver->reached, 0, sizeof unwinder->solver->reached);
  for (int index = 0; index < FACTS_REMEMBERED; index++)
    unwinder->solver->facts[index].pc = 0;
}

static bool has_failed(const struct analysis *analysis) { return analysis->failed || analysis->transfer.failed; }

static bool within(struct code_range range, uint64_t address) { return address >= range.start && address < range.end; }

static size_t decode(struct analysis *analysis, uint64_t address, struct code_operation *operations, int *count) {
  *count = 0;
  size_t length = ++analysis->instructions > INSTRUCTIONS_MAX
                      ? 0
                      : cunwind_decode_at(analysis->unwinder, address, operations, count);
  if (length == 0)
    analysis->failed = true;
  return length;
}

static int block_of(const struct solver *solver, uint64_t address, bool begin) {
  int low = 0, high = solver->block_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (solver->blocks[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 || (begin && solver->blocks[low - 1].address != address) ? -1 : low - 1;
}

static void add_block(struct analysis *analysis, uint64_t address) {
  struct solver *solver = analysis->unwinder->solver;
  int place = block_of(solver, address, false) + 1;
  if ((!within(analysis->range, address) && !within(analysis->cold, address)) ||
      (place > 0 && solver->blocks[place - 1].address == address))
    return;
  if (solver->block_count == BLOCKS) {
    analysis->failed = true;
    return;
  }
  memmove(&solver->blocks[place + 1], &solver->blocks[place],
          (size_t)(solver->block_count++ - place) * sizeof solver->blocks[0]);
  solver->blocks[place] = (struct block){address, false};
}

static void find_blocks(struct analysis *analysis, struct code_range range) {
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  add_block(analysis, range.start);
  for (uint64_t address = range.start; address < range.end && !has_failed(analysis);) {
    size_t length = decode(analysis, address, operations, &count);
    address += length;
    for (int index = 0; index < count; index++) {
      enum code_kind kind = operations[index].kind;
      if (kind == CODE_BRANCH || kind == CODE_JUMP)
        add_block(analysis, operations[index].target);
      if (!code_goes_on(kind))
        add_block(analysis, address);
    }
  }
}

static void propagate(struct analysis *analysis, uint64_t address, const struct abstract_state *state) {
  struct solver *solver = analysis->unwinder->solver;
  int block = block_of(solver, address, true);
  if (block >= 0 && cunwind_state_join(&analysis->transfer, &solver->states[block], state, address))
    solver->blocks[block].dirty = true;
}

static void run_block(struct analysis *analysis, int block) {
  struct solver *solver = analysis->unwinder->solver;
  struct code_operation operations[CODE_OPERATIONS];
  const struct unwind_architecture *architecture = analysis->transfer.architecture;
  struct frame_facts *facts = analysis->transfer.facts;
  struct abstract_state state = solver->states[block];
  int count;
  bool goes_on = true;
  uint64_t address = solver->blocks[block].address;
  solver->blocks[block].dirty = false;
  while (goes_on && !has_failed(analysis)) {
    if (address == analysis->pc && analysis->interrupted)
      cunwind_state_join(&analysis->transfer, &facts->state, &state, 0);
    size_t length = decode(analysis, address, operations, &count);
    uint64_t next = address + length;
    for (int index = 0; index < count; index++) {
      const struct code_operation *operation = &operations[index];
      bool calls = code_is_call(operation->kind) || operation->kind == CODE_SYSTEM_CALL;
      if (calls && next == analysis->pc && !analysis->interrupted) {
        cunwind_state_join(&analysis->transfer, &facts->state, &state, 0);
        facts->call = *operation;
      }
      cunwind_transfer(&analysis->transfer, &state, address, operation);
      struct symbolic_value sp = state.registers[architecture->sp];
      bool leaves = symbolic_is_entry(sp, architecture->sp) && sp.offset == 0;
      if (operation->kind == CODE_BRANCH || operation->kind == CODE_JUMP) {
        propagate(analysis, operation->target, &state);
        analysis->jumps.with_frame |= operation->target == analysis->target && !leaves;
      }
      if (code_is_call(operation->kind))
        cunwind_state_join(&analysis->transfer, &analysis->at_calls, &state, 1);
      if (operation->kind == CODE_JUMP_ANYWHERE) {
        analysis->jumps.anywhere |= leaves;
        if (!leaves)
          cunwind_state_join(&analysis->transfer, &analysis->at_jumps, &state, 2);
      }
      goes_on &= code_goes_on(operation->kind);
    }
    address = next;
    if (goes_on && block_of(solver, address, true) >= 0) {
      propagate(analysis, address, &state);
      goes_on = false;
    }
    goes_on &= within(analysis->range, address) || within(analysis->cold, address);
  }
}

static void run_to_fixpoint(struct analysis *analysis) {
  struct solver *solver = analysis->unwinder->solver;
  for (bool again = true; again && !has_failed(analysis);) {
    again = false;
    for (int block = 0; block < solver->block_count && !has_failed(analysis); block++)
      if (solver->blocks[block].dirty) {
        run_block(analysis, block);
        again = true;
      }
  }
}

static void prepare(struct analysis *analysis) {
  struct solver *solver = analysis->unwinder->solver;
  struct code_range range = analysis->range, cold = analysis->cold;
  memset(analysis->transfer.facts, 0, sizeof *analysis->transfer.facts);
  analysis->transfer.facts->first_interned = analysis->transfer.architecture->general_registers + 1;
  analysis->transfer.facts->symbol_count = analysis->transfer.facts->first_interned;
  solver->block_count = 0;
  analysis->failed = range.end - range.start > CODE_BYTES_MAX || cold.end - cold.start > CODE_BYTES_MAX;
  if (analysis->failed)
    return;
  find_blocks(analysis, range);
  if (cold.end > cold.start)
    find_blocks(analysis, cold);
}

static void analyse_from_entry(struct analysis *analysis) {
  struct solver *solver = analysis->unwinder->solver;
  prepare(analysis);
  for (int block = 0; block < solver->block_count; block++)
    solver->states[block].reached = false;
  struct abstract_state entry = {.reached = true};
  for (int number = 0; number < analysis->transfer.architecture->general_registers; number++)
    entry.registers[number] = symbolic_entry(number);
  propagate(analysis, analysis->range.start, &entry);
  run_to_fixpoint(analysis);
}

static void analyse(struct analysis *analysis) {
  struct solver *solver = analysis->unwinder->solver;
  analyse_from_entry(analysis);
  /* Targets of jump tables and exception landing pads have no visible predecessor. */
  int block = block_of(solver, analysis->interrupted ? analysis->pc : analysis->pc - 1, false);
  if (!analysis->transfer.facts->state.reached && block >= 0 && !solver->states[block].reached) {
    bool catches = analysis->range.catches || analysis->cold.catches || !analysis->at_jumps.reached;
    if (analysis->at_jumps.reached)
      propagate(analysis, solver->blocks[block].address, &analysis->at_jumps);
    if (analysis->at_calls.reached && catches)
      propagate(analysis, solver->blocks[block].address, &analysis->at_calls);
    analysis->transfer.facts->origin = analysis->at_jumps.reached ? FACTS_BY_TABLE : FACTS_BY_CALLS;
    run_to_fixpoint(analysis);
  }
}

static struct analysis analysis_of(struct unwinder *unwinder, struct code_range range, struct code_range cold,
                                   struct frame_facts *facts) {
  return (struct analysis){.unwinder = unwinder,
                           .transfer = {.architecture = unwinder->architecture, .facts = facts},
                           .range = range,
                           .cold = cold};
}

bool cunwind_frame_facts(struct unwinder *unwinder, struct code_range range, struct code_range cold, uint64_t pc,
                         bool interrupted, bool loads, struct frame_facts *facts) {
  uint64_t place = (pc ^ pc >> 5 ^ (uint64_t)loads) % FACTS_REMEMBERED;
  struct remembered_facts *memory = &unwinder->solver->facts[place];
  if (memory->pc != pc || memory->interrupted != interrupted || memory->loads != loads ||
      memory->range.start != range.start || memory->cold.start != cold.start) {
    *memory =
        (struct remembered_facts){.range = range, .cold = cold, .pc = pc, .interrupted = interrupted, .loads = loads};
    struct analysis analysis = analysis_of(unwinder, range, cold, &memory->facts);
    analysis.pc = pc;
    analysis.interrupted = interrupted;
    analysis.transfer.loads_before = loads ? pc : 0;
    analyse(&analysis);
    memory->has_facts = !has_failed(&analysis) && memory->facts.state.reached;
  }
  *facts = memory->facts;
  return memory->has_facts;
}

bool cunwind_function_jumps(struct unwinder *unwinder, struct code_range range, uint64_t target,
                            struct function_jumps *jumps) {
  struct code_range none = {0};
  struct analysis analysis = analysis_of(unwinder, range, none, &unwinder->solver->unwanted);
  analysis.target = target;
  analyse_from_entry(&analysis);
  *jumps = analysis.jumps;
  return !has_failed(&analysis);
}

static bool go_through(struct analysis *analysis, int block, uint64_t to, bool *grows) {
  const struct unwind_architecture *architecture = analysis->transfer.architecture;
  struct solver *solver = analysis->unwinder->solver;
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  bool reaches = false;
  uint64_t address = solver->blocks[block].address;
  bool goes_on = true;
  while (goes_on && !has_failed(analysis) && (within(analysis->range, address) || within(analysis->cold, address))) {
    address += decode(analysis, address, operations, &count);
    reaches |= address == to;
    for (int index = 0; index < count; index++) {
      const struct code_operation *operation = &operations[index];
      bool sets = operation->kind == CODE_SET && operation->from != architecture->sp &&
                  operation->from != architecture->frame_pointer;
      *grows |= operation->to == architecture->sp && (operation->kind == CODE_LOWER || sets);
      reaches |= operation->kind == CODE_JUMP_ANYWHERE;
      int next = operation->kind == CODE_BRANCH || operation->kind == CODE_JUMP
                     ? block_of(solver, operation->target, true)
                     : -1;
      if (next >= 0)
        solver->blocks[next].dirty |= !solver->states[next].reached;
      goes_on &= code_goes_on(operation->kind);
    }
    int next = goes_on ? block_of(solver, address, true) : -1;
    if (next >= 0) {
      solver->blocks[next].dirty |= !solver->states[next].reached;
      goes_on = false;
    }
  }
  return reaches;
}

static bool find_whether_reaches(struct unwinder *unwinder, struct code_range range, struct code_range other,
                                 uint64_t from, uint64_t to, bool *grows) {
  struct solver *solver = unwinder->solver;
  struct analysis analysis = analysis_of(unwinder, range, other, &solver->unwanted);
  bool reaches = false;
  *grows = false;
  prepare(&analysis);
  add_block(&analysis, from);
  for (int block = 0; block < solver->block_count; block++) {
    solver->blocks[block].dirty = solver->blocks[block].address == from;
    solver->states[block].reached = false;
  }
  for (int block = 0; block < solver->block_count && !has_failed(&analysis);) {
    if (!solver->blocks[block].dirty) {
      block++;
      continue;
    }
    solver->blocks[block].dirty = false;
    solver->states[block].reached = true;
    reaches |= go_through(&analysis, block, to, grows);
    block = 0;
  }
  *grows |= has_failed(&analysis);
  return reaches || has_failed(&analysis);
}

bool cunwind_function_reaches(struct unwinder *unwinder, struct code_range range, struct code_range other,
                              uint64_t from, uint64_t to, bool *grows) {
  struct remembered_reach *memory = &unwinder->solver->reached[(from ^ from >> 8 ^ to * 3) % REACHED_REMEMBERED];
  if (memory->from != from || memory->to != to || memory->other != other.start) {
    *memory = (struct remembered_reach){.from = from, .to = to, .other = other.start};
    memory->reaches = find_whether_reaches(unwinder, range, other, from, to, &memory->grows);
  }
  *grows = memory->grows;
  return memory->reaches;
}
