/* What a function's code tells of its frame where it calls another one: which registers and which words of the stack
 * hold addresses of which parts of the frame, or what registers held when the function was entered. Internal to the
 * observer.
 *
 * The function is gone through from its entry along all its ways, with values that are relative to a base: the stack
 * pointer or another register at the entry, or something that came into being on the way (an address that was aligned, a
 * stack pointer that was lowered by an amount known to the program alone). A fact holds on every way to the call. */
#ifndef FRAME_FACTS_H
#define FRAME_FACTS_H

#include "code.h"
#include "unwind_walk.h"

#if defined(__x86_64__) || defined(__aarch64__)

enum { FACT_BASES = 64, FACT_SLOTS = 24 };

/* OFFSET from base BASE; 0: unknown. Not 0 SHIFT: that, shifted right by SHIFT. */
struct fact_value {
  uint8_t base, shift;
  int32_t offset;
};

/* VALUE and AMOUNT more. Async-signal-safe: yes. Threads: any. */
static inline struct fact_value observer_fact_moved(struct fact_value value, int64_t amount) {
  value.offset = (int32_t)((uint32_t)value.offset + (uint32_t)amount);
  return value;
}

struct fact_slot {
  struct fact_value where, what;
};

struct fact_state {
  bool reached;
  uint8_t slot_count;
  struct fact_value registers[CODE_REGISTERS];
  struct fact_slot slots[FACT_SLOTS];
};

enum fact_base_kind {
  FACT_FREE = 0,     /* anything */
  FACT_LOWERED,      /* less than PARENT */
  FACT_ALIGNED,      /* PARENT & MASK */
  FACT_LOADED,       /* the word at PARENT */
  FACT_LOADED_FIXED, /* the word at MASK */
  FACT_FIXED,        /* MASK */
};

struct fact_base {
  enum fact_base_kind kind;
  struct fact_value parent;
  int64_t mask;
  uint64_t made_at; /* the instruction */
};

/* How it is known what holds at a place. */
enum fact_origin {
  FACTS_BY_WAYS = 0,  /* on all ways to there */
  FACTS_BY_TABLE = 1, /* it is as at all jumps through tables: no other way leads there */
  FACTS_BY_CALLS = 2, /* nor do these: it is as at all calls */
};

/* Base 1 + N is register N at the function's entry. */
struct frame_facts {
  enum fact_origin origin;
  struct fact_state state; /* where the call is */
  struct fact_base bases[FACT_BASES];
  int base_count;
  struct code_operation call; /* the call itself; of another kind if there is none */
};

/* Finds the facts of the frame whose function is entered at RANGE's beginning and is at PC: after the call that ends
 * there, or, if it was INTERRUPTED, before the instruction there. COLD is another part of the function. With LOADS, what
 * was loaded from memory shortly before PC is a base as well. Returns false when the function is too large, not
 * understood, or not seen to come to PC.
 * Async-signal-safe: yes. Threads: the monitor. */
bool observer_frame_facts(struct code_range range, struct code_range cold, uint64_t pc, bool interrupted,
                          bool loads, struct frame_facts *facts);

/* Forgets what was found out about functions: they may have been replaced.
 * Async-signal-safe: yes. Threads: the monitor. */
void observer_facts_forget(void);

/* What is known of the values of a frame's bases. */
struct fact_values {
  uint64_t values[FACT_BASES];
  uint64_t known;    /* a bit for each base */
  bool contradicted; /* something was learnt twice, and was not the same */
};

/* Adds to VALUES that VALUE, of FACTS, is NUMBER. Async-signal-safe: yes. Threads: any. */
void observer_fact_learn(struct fact_values *values, struct fact_value value, uint64_t number);

/* Adds to VALUES what follows from them by the words of the stack.
 * Async-signal-safe: yes. Threads: the monitor. */
void observer_fact_conclude(struct walk *walk, const struct frame_facts *facts, struct fact_values *values);

/* Looks up VALUE. Returns false when it is not known. Async-signal-safe: yes. Threads: any. */
bool observer_fact_value(const struct fact_values *values, struct fact_value value, uint64_t *number);

#endif
#endif
