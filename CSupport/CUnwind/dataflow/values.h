/* What a function's code tells of its frame where it calls another one: which registers and which words of the stack
 * hold addresses of which parts of the frame, or what registers held when the function was entered. Internal to
 * CUnwind.
 *
 * The function is gone through from its entry along all its paths, with values that are relative to a symbol: the stack
 * pointer or another register at the entry, or something that came into being on the path (an address that was aligned,
 * a stack pointer that was lowered by an amount known to the program alone). A fact holds on every path to the call. */
#ifndef VALUES_H
#define VALUES_H

#include "../decode.h"

enum { SYMBOLS_MAX = 64, CELLS_MAX = 24 };

/* OFFSET from SYMBOL; 0: unknown. Not 0 SHIFT: that, shifted right by SHIFT. */
struct symbolic_value {
  uint8_t symbol, shift;
  int32_t offset;
};

/* VALUE and AMOUNT more. Async-signal-safe: yes. Threads: any. */
static inline struct symbolic_value symbolic_plus(struct symbolic_value value, int64_t amount) {
  value.offset = (int32_t)((uint32_t)value.offset + (uint32_t)amount);
  return value;
}

/* What register NUMBER held at the function's entry: symbol 1 + NUMBER. Async-signal-safe: yes. Threads: any. */
static inline struct symbolic_value symbolic_entry(int number) {
  return (struct symbolic_value){(uint8_t)(1 + number), 0, 0};
}

/* Whether VALUE is what register NUMBER held at the function's entry, and perhaps more or less.
 * Async-signal-safe: yes. Threads: any. */
static inline bool symbolic_is_entry(struct symbolic_value value, int number) {
  return value.symbol == 1 + number && value.shift == 0;
}

struct abstract_cell {
  struct symbolic_value where, what;
};

/* What holds at an instruction. */
struct abstract_state {
  bool reached;
  uint8_t cell_count;
  struct symbolic_value registers[CODE_REGISTERS];
  struct abstract_cell cells[CELLS_MAX];
};

enum symbol_kind {
  SYMBOL_FREE = 0,     /* anything */
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
  uint64_t interned_at; /* the instruction */
};

/* How it is known what holds at a place. */
enum facts_origin {
  FACTS_BY_PATHS = 0, /* on all paths to there */
  FACTS_BY_TABLE = 1, /* it is as at all jumps through tables: no other path leads there */
  FACTS_BY_CALLS = 2, /* nor do these: it is as at all calls */
};

struct frame_facts {
  enum facts_origin origin;
  struct abstract_state state; /* where the call is */
  struct symbol symbols[SYMBOLS_MAX];
  int first_interned; /* the symbols before it are registers at the function's entry */
  int symbol_count;
  struct code_operation call; /* the call itself; of another kind if there is none */
};

/* What is known of the values of a frame's symbols. */
struct symbol_values {
  uint64_t values[SYMBOLS_MAX];
  uint64_t known;    /* a bit for each symbol */
  bool contradicted; /* something was learnt twice, and was not the same */
};

/* Adds to VALUES that VALUE is NUMBER. Async-signal-safe: yes. Threads: any. */
void cunwind_learn(struct symbol_values *values, struct symbolic_value value, uint64_t number);

/* Adds to VALUES what follows from them by the words of the stack.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_conclude(struct walk *walk, const struct frame_facts *facts, struct symbol_values *values);

/* Looks up VALUE. Returns false when it is not known. Async-signal-safe: yes. Threads: any. */
bool cunwind_value(const struct symbol_values *values, struct symbolic_value value, uint64_t *number);

#endif
