#include "rule_cursor.h"

#include "frame_rule.h"
#include "process_memory.h"
#include "unwind_tables.h"

/* Size of the rule cache: the number of rules used by the stacks of a large program. */
enum { REMEMBERED = 512, LOWEST_ADDRESS = 4096 };

struct remembered_rule {
  uint64_t address; /* 0: empty */
  uint32_t use;     /* the cache generation that it belongs to */
  bool is_simple;   /* the row is a simple rule */
  struct frame_rule rule;
};

struct frame_rules {
  uint32_t use; /* current generation; increases when the cache is cleared */
  struct remembered_rule remembered[REMEMBERED];
};

size_t cunwind_rules_bytes(void) { return sizeof(struct frame_rules); }

/* Returns the rule for the code at ADDRESS; NULL if it is not simple. */
static const struct frame_rule *rule_at(struct unwinder *unwinder, uint64_t address) {
  struct frame_rules *rules = unwinder->rules;
  struct remembered_rule *memory = &rules->remembered[(address ^ address >> 9) % REMEMBERED];
  if (memory->address != address || memory->use != rules->use) {
    memory->address = address;
    memory->use = rules->use;
    memory->is_simple = cunwind_read_frame_rule(unwinder, address, &memory->rule);
  }
  return memory->is_simple ? &memory->rule : NULL;
}

/* Returns the lookup address of CURSOR's frame, which was reached by rules. */
static uint64_t looked_up(const struct cursor *cursor) {
  return cunwind_code_address(cursor->walk->unwinder, cursor->rules.pc) - cursor->is_returned_to;
}

static bool resume_at(struct walk *walk, struct cursor *cursor) {
  const struct unwind_architecture *architecture = walk->unwinder->architecture;
  cursor->by_rules = true;
  cursor->is_returned_to = false;
  cursor->steps = 0;
  cursor->rules.saved = 0;
  return cunwind_register(architecture, &walk->registers, architecture->pc, &cursor->rules.pc) &&
         cunwind_register(architecture, &walk->registers, architecture->sp, &cursor->rules.sp);
}

/* Hands CURSOR over to libunwind. Returns false if libunwind reaches another frame. */
static bool hand_over(struct cursor *cursor) {
  struct walk *walk = cursor->walk;
  const struct unwind_architecture *architecture = walk->unwinder->architecture;
  const struct cfi_steps *library = walk->unwinder->library;
  uint64_t pc = cursor->rules.pc, sp = cursor->rules.sp, library_pc = 0, library_sp = 0;
  /* Errors and reads of the repeated steps do not count. */
  int missing = walk->missing;
  uint64_t last_read = walk->last_read;
  bool beyond_copy = walk->beyond_copy, unreadable = walk->unreadable;
  bool no_module = walk->no_module, no_info = walk->no_info;
  struct rule_frame rules = cursor->rules;
  cursor->by_rules = false;
  bool is_there = library->resume(walk, cursor);
  for (uint32_t step = 0; is_there && step < cursor->steps; step++)
    is_there = library->step(cursor, step == 0 && walk->returns_to == 0) > 0;
  is_there = is_there && library->find_register(cursor, architecture->pc, &library_pc) &&
             library->find_register(cursor, architecture->sp, &library_sp) && library_pc == pc && library_sp == sp;
  walk->missing = missing;
  walk->last_read = last_read;
  walk->beyond_copy = beyond_copy;
  walk->unreadable = unreadable;
  walk->no_module = no_module;
  walk->no_info = no_info;
  if (!is_there) {
    cursor->rules = rules;
    cursor->by_rules = true;
  }
  return is_there;
}

static bool find_saved(struct cursor *cursor, int number, uint64_t *value) {
  struct walk *walk = cursor->walk;
  const struct rule_frame *frame = &cursor->rules;
  if (frame->saved >> number & 1)
    return cunwind_word(walk, frame->places[number], value);
  return cunwind_register(walk->unwinder->architecture, &walk->registers, number, value);
}

static int step(struct cursor *cursor, bool interrupted) {
  struct walk *walk = cursor->walk;
  struct rule_frame *frame = &cursor->rules;
  const struct unwind_architecture *architecture = walk->unwinder->architecture;
  const struct cfi_steps *library = walk->unwinder->library;
  if (!cursor->by_rules)
    return library->step(cursor, interrupted);
  const struct frame_rule *rule = rule_at(walk->unwinder, looked_up(cursor));
  if (!rule)
    return hand_over(cursor) ? library->step(cursor, interrupted) : -1;
  uint64_t cfa = frame->sp, pc = 0;
  if (rule->cfa_register != architecture->sp && !find_saved(cursor, rule->cfa_register, &cfa)) {
    if (!(frame->saved >> rule->cfa_register & 1))
      walk->missing = rule->cfa_register;
    return -1;
  }
  cfa += (uint64_t)(int64_t)rule->cfa_offset;
  if (!rule->is_outermost) {
    int count = 0;
    for (uint32_t left = rule->saved; left != 0; left &= left - 1) {
      int number = __builtin_ctz(left);
      uint64_t place = cfa + (uint64_t)((int64_t)rule->offsets[count++] * RULE_UNIT);
      /* libunwind treats a register saved at address 0 as not saved. */
      if (place < LOWEST_ADDRESS)
        return hand_over(cursor) ? library->step(cursor, interrupted) : -1;
      frame->places[number] = place;
    }
    frame->saved |= rule->saved;
    if (!cunwind_word(walk, frame->places[architecture->return_column], &pc) || (pc == frame->pc && cfa == frame->sp))
      return -1;
  }
  frame->pc = pc;
  frame->sp = cfa;
  cursor->is_returned_to = true;
  cursor->steps++;
  return !rule->is_outermost;
}

static bool find_register(struct cursor *cursor, int number, uint64_t *value) {
  struct walk *walk = cursor->walk;
  const struct unwind_architecture *architecture = walk->unwinder->architecture;
  if (!cursor->by_rules)
    return walk->unwinder->library->find_register(cursor, number, value);
  if (number == architecture->pc || number == architecture->sp) {
    *value = number == architecture->pc ? cursor->rules.pc : cursor->rules.sp;
    return true;
  }
  if (find_saved(cursor, number, value))
    return true;
  if (!(cursor->rules.saved >> number & 1) && number != architecture->link)
    walk->missing = number;
  return false;
}

static bool find_function(struct cursor *cursor, struct code_range *range) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  if (cursor->by_rules && rule_at(unwinder, looked_up(cursor)) &&
      cunwind_table_function(unwinder, looked_up(cursor), range))
    return true;
  return (!cursor->by_rules || hand_over(cursor)) && unwinder->library->find_function(cursor, range);
}

static bool describes(struct walk *walk, uint64_t address) {
  struct unwinder *unwinder = walk->unwinder;
  return rule_at(unwinder, cunwind_code_address(unwinder, address)) || unwinder->library->describes(walk, address);
}

/* Signal frames have no simple rules. */
static bool was_interrupted(struct cursor *before, struct cursor *now) {
  return !now->by_rules && now->walk->unwinder->library->was_interrupted(before, now);
}

static void forget(struct unwinder *unwinder) {
  unwinder->rules->use++;
  unwinder->library->forget(unwinder);
}

static const struct cfi_steps steps = {
    .resume = resume_at,
    .step = step,
    .find_register = find_register,
    .find_function = find_function,
    .describes = describes,
    .was_interrupted = was_interrupted,
    .forget = forget,
};

/* Number of steps that can be repeated at negligible cost. */
enum { STEPS_REPEATED = 64 };

/* Without rules a cursor does not have these fields. */
void cunwind_settle(struct cursor *cursor) {
  if (cursor->walk->unwinder->cfi == &steps && cursor->by_rules && cursor->steps > STEPS_REPEATED)
    hand_over(cursor);
}

const struct cfi_steps *cunwind_rule_steps(const struct unwinder *unwinder) {
  return unwinder->architecture->return_column != UNWIND_NO_REGISTER ? &steps : unwinder->library;
}
