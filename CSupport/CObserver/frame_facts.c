#include "exploration.h"

#include "observer_context.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* Facts that are remembered. */
enum { REMEMBERED = 32 };

static struct remembered {
  struct code_range range, cold;
  uint64_t pc;
  bool interrupted, loads, has_facts;
  struct frame_facts facts;
} rooms[OBSERVER_CONTEXTS_MAX][REMEMBERED];

void observer_facts_forget(void) {
  observer_explorations_forget();
  for (int index = 0; index < REMEMBERED; index++)
    rooms[observer_context][index].pc = 0;
}

static bool find_facts(struct code_range range, struct code_range cold, uint64_t pc, bool interrupted, bool loads,
                       struct frame_facts *facts) {
  struct exploration exploration = {
      .range = range, .cold = cold, .pc = pc, .interrupted = interrupted, .loads = loads, .facts = facts};
  observer_explore(&exploration);
  return !exploration.failed && facts->state.reached;
}

bool observer_frame_facts(struct code_range range, struct code_range cold, uint64_t pc, bool interrupted, bool loads,
                          struct frame_facts *facts) {
  struct remembered *memory = &rooms[observer_context][(pc ^ pc >> 5 ^ (uint64_t)loads) % REMEMBERED];
  if (memory->pc != pc || memory->interrupted != interrupted || memory->loads != loads ||
      memory->range.start != range.start || memory->cold.start != cold.start) {
    *memory = (struct remembered){.range = range, .cold = cold, .pc = pc, .interrupted = interrupted, .loads = loads};
    memory->has_facts = find_facts(range, cold, pc, interrupted, loads, &memory->facts);
  }
  *facts = memory->facts;
  return memory->has_facts;
}

void observer_fact_learn(struct fact_values *values, struct fact_value value, uint64_t number) {
  if (value.base == 0 || value.shift != 0)
    return;
  uint64_t base = number - (uint64_t)(int64_t)value.offset;
  if (!(values->known >> value.base & 1)) {
    values->values[value.base] = base;
    values->known |= UINT64_C(1) << value.base;
  } else if (values->values[value.base] != base) {
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
  uint64_t number = 0, word;
  uint64_t bases_done = 0;
  uint32_t slots_done = 0;
  for (bool again = true; again;) {
    again = false;
    for (int index = FIRST_MADE_BASE; index < facts->base_count; index++) {
      const struct fact_base *base = &facts->bases[index];
      bool fixed = base->kind == FACT_FIXED || base->kind == FACT_LOADED_FIXED;
      if (base->kind == FACT_FREE || base->kind == FACT_LOWERED || (bases_done >> index & 1) ||
          (!fixed && !observer_fact_value(values, base->parent, &number)))
        continue;
      bases_done |= UINT64_C(1) << index;
      again = true;
      word = fixed ? (uint64_t)base->mask : number & (uint64_t)base->mask;
      bool loads = base->kind == FACT_LOADED || base->kind == FACT_LOADED_FIXED;
      if (!loads || observer_walk_word(walk, fixed ? (uint64_t)base->mask : number, &word))
        observer_fact_learn(values, (struct fact_value){(uint8_t)index, 0, 0}, word);
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
