#include "values.h"

#include "../process_memory.h"

void cunwind_learn(struct symbol_values *values, struct symbolic_value value, uint64_t number) {
  if (value.symbol == 0 || value.shift != 0)
    return;
  uint64_t origin = number - (uint64_t)(int64_t)value.offset;
  if (!(values->known >> value.symbol & 1)) {
    values->values[value.symbol] = origin;
    values->known |= UINT64_C(1) << value.symbol;
  } else if (values->values[value.symbol] != origin) {
    values->contradicted = true;
  }
}

bool cunwind_value(const struct symbol_values *values, struct symbolic_value value, uint64_t *number) {
  if (value.symbol == 0 || value.shift != 0 || !(values->known >> value.symbol & 1))
    return false;
  *number = values->values[value.symbol] + (uint64_t)(int64_t)value.offset;
  return true;
}

void cunwind_conclude(struct walk *walk, const struct frame_facts *facts, struct symbol_values *values) {
  uint64_t number = 0, word;
  uint64_t symbols_done = 0;
  uint32_t cells_done = 0;
  for (bool again = true; again;) {
    again = false;
    for (int index = facts->first_interned; index < facts->symbol_count; index++) {
      const struct symbol *symbol = &facts->symbols[index];
      bool fixed = symbol->kind == SYMBOL_FIXED || symbol->kind == SYMBOL_LOADED_FIXED;
      if (symbol->kind == SYMBOL_FREE || symbol->kind == SYMBOL_LOWERED || (symbols_done >> index & 1) ||
          (!fixed && !cunwind_value(values, symbol->parent, &number)))
        continue;
      symbols_done |= UINT64_C(1) << index;
      again = true;
      word = fixed ? (uint64_t)symbol->mask : number & (uint64_t)symbol->mask;
      bool loads = symbol->kind == SYMBOL_LOADED || symbol->kind == SYMBOL_LOADED_FIXED;
      if (!loads || cunwind_word(walk, fixed ? (uint64_t)symbol->mask : number, &word))
        cunwind_learn(values, (struct symbolic_value){(uint8_t)index, 0, 0}, word);
    }
    for (int index = 0; index < facts->state.cell_count; index++) {
      const struct abstract_cell *cell = &facts->state.cells[index];
      if ((cells_done >> index & 1) || !cunwind_value(values, cell->where, &number))
        continue;
      cells_done |= UINT32_C(1) << index;
      if (cunwind_word(walk, number, &word))
        cunwind_learn(values, cell->what, word);
      again = true;
    }
  }
}
