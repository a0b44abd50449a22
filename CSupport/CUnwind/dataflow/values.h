/* Facts about a frame at a call by its function, derived from the function's code: which registers and stack words hold
 * addresses within the frame or values that registers had at the function's entry.
 *
 * Values are relative to a symbol: a register at the entry, or a value created on the path, such as an aligned address.
 * A fact holds on every path from the entry to the call. */
#ifndef VALUES_H
#define VALUES_H

#include "../decode.h"

enum { SYMBOLS_MAX = 64, CELLS_MAX = 24 };

/* The value of SYMBOL shifted right by SHIFT bits, plus OFFSET. Symbol 0 is an unknown value. */
struct symbolic_value {
  uint8_t symbol, shift;
  int32_t offset;
};

/* Async-signal-safe: yes. Threads: any. */
static inline struct symbolic_value symbolic_plus(struct symbolic_value value, int64_t amount) {
  value.offset = (int32_t)((uint32_t)value.offset + (uint32_t)amount);
  return value;
}

/* Returns the value of register NUMBER at the function's entry: symbol 1 + NUMBER. Async-signal-safe: yes. Threads:
 * any. */
static inline struct symbolic_value symbolic_entry(int number) {
  return (struct symbolic_value){(uint8_t)(1 + number), 0, 0};
}

/* Whether VALUE is the entry value of register NUMBER plus any offset. Async-signal-safe: yes. Threads: any. */
static inline bool symbolic_is_entry(struct symbolic_value value, int number) {
  return value.symbol == 1 + number && value.shift == 0;
}

/* The word at address WHERE has the value WHAT. Both are unshifted. */
struct abstract_cell {
  struct symbolic_value where, what;
};

struct abstract_state {
  bool reached;
  uint8_t cell_count;
  struct symbolic_value registers[CODE_REGISTERS];
  struct abstract_cell cells[CELLS_MAX];
};

enum symbol_kind {
  SYMBOL_FREE = 0,     /* any value */
  SYMBOL_LOWERED,      /* less than PARENT */
  SYMBOL_ALIGNED,      /* PARENT & MASK */
  SYMBOL_LOADED,       /* the word at PARENT */
  SYMBOL_LOADED_FIXED, /* the word at MASK */
  SYMBOL_FIXED,        /* MASK */
};

struct symbol {
  enum symbol_kind kind;
  struct symbolic_value parent;
  int64_t mask;
  uint64_t interned_at; /* address of the instruction */
};

/* The source of the facts at an address. */
enum facts_origin {
  FACTS_BY_PATHS = 0, /* all paths to the address */
  FACTS_BY_TABLE = 1, /* all jumps through tables, because no path leads to the address */
  FACTS_BY_CALLS = 2, /* all calls, because no path or jump through a table leads to the address */
};

struct frame_facts {
  enum facts_origin origin;
  struct abstract_state state; /* at the call */
  struct symbol symbols[SYMBOLS_MAX];
  int first_interned; /* lower symbols are registers at the function's entry */
  int symbol_count;
  struct code_operation call;
};

struct symbol_values {
  uint64_t values[SYMBOLS_MAX];
  uint64_t known; /* one bit per symbol */
  bool contradicted;
};

/* Adds to VALUES the fact that VALUE equals NUMBER. Async-signal-safe: yes. Threads: any. */
void cunwind_learn(struct symbol_values *values, struct symbolic_value value, uint64_t number);

/* Adds to VALUES the consequences of the known values and the stack's words. Async-signal-safe: as cunwind_unwind.
 * Threads: as cunwind_unwind. */
void cunwind_conclude(struct walk *walk, const struct frame_facts *facts, struct symbol_values *values);

/* Looks up VALUE. Returns false if it is unknown. Async-signal-safe: yes. Threads: any. */
bool cunwind_value(const struct symbol_values *values, struct symbolic_value value, uint64_t *number);

#endif
