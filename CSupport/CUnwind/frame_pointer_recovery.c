#include "frame_pointer_recovery.h"

#include "call_site.h"
#include "caller_registers.h"
#include "dataflow/solve.h"
#include "function_start.h"
#include "no_cfi.h"
#include "process_memory.h"
#include "rule_cursor.h"

#include <string.h>

/* Places that may be the frame record, at most: with more, none is believed. */
enum { CANDIDATES_MAX = 24, RECORD_ALIGNMENT = 16 };

/* Frames on the path outwards from such a place that are remembered. */
enum { PATH_FRAMES_MAX = 64 };

/* Steps by code alone in one search: they take long. */
enum { BARE_STEPS_MAX = 100 };

/* The frame whose frame pointer is looked for. */
struct search {
  struct walk *walk;
  struct cursor cursor;
  bool interrupted;
  struct code_range function; /* its function */
  uint64_t pc, sp;
  struct frame_facts facts;
  struct symbol_values values; /* what is known of the frame without its frame pointer */
  bool has_facts;
  int bare_steps;      /* so many steps by code alone have been taken */
  enum call_site lost; /* the best site of a place from which the path is lost in code that nothing describes */
};

/* A frame on the path outwards. */
struct path_frame {
  struct code_range function;
  uint64_t caller_sp;  /* the stack pointer where its caller called it */
  uint64_t pc;         /* where it is itself */
  enum call_site site; /* its caller's call of it */
};

/* A place that may be it. */
struct candidate {
  uint64_t record;
  enum call_site site;
  bool exact;     /* it is at a distance from the stack pointer that the code tells */
  bool is_lost;   /* the path outwards is lost in code that nothing describes */
  int mismatches; /* calls on the path outwards that do not seem to lead to where they would have led */
  uint64_t top;   /* the highest stack pointer on the path */
  int frames;
  struct path_frame path[PATH_FRAMES_MAX];
};

struct frame_pointer_search {
  struct search search;
  struct caller_registers known;
  struct frame_facts facts_of_whole;
  struct candidate candidate; /* the one that the code tells */
  struct candidate candidates[CANDIDATES_MAX];
};

size_t cunwind_frame_pointer_search_bytes(void) { return sizeof(struct frame_pointer_search); }

/* Finds the function of CURSOR's frame, described or not. */
static bool find_function(struct cursor *cursor, bool interrupted, struct code_range *function) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  uint64_t pc = 0;
  return cunwind_cursor_pc(cursor, &pc) &&
         cunwind_function_at(unwinder, cunwind_code_address(unwinder, pc) - !interrupted, function);
}

/* Goes from CURSOR's frame, which is at PC, to its caller's, by unwind tables or by its code. As
 * cunwind_cursor_step. */
static int step_out(struct search *search, struct cursor *cursor, uint64_t pc, bool interrupted) {
  struct walk *walk = search->walk;
  struct cursor callee = *cursor;
  struct caller_frame caller;
  int result = cunwind_cursor_step(cursor, interrupted);
  if ((!walk->no_module && !walk->no_info) || cunwind_cursor_was_interrupted(&callee, cursor))
    return result;
  if (search->bare_steps++ >= BARE_STEPS_MAX || !cunwind_no_cfi_caller(&callee, pc, interrupted, &caller)) {
    walk->no_info = true;
    return -1;
  }
  if (caller.return_address == 0)
    return 0;
  bool goes_on = cunwind_cursor_resume_at(walk, cursor, caller.return_address, caller.sp, caller.frame_pointer,
                                          caller.has_frame_pointer);
  walk->no_module = walk->no_info = false;
  return goes_on ? 1 : -1;
}

/* Whether a frame pointer of CANDIDATE's leads from the frame to the outermost one, or through UNWIND_FRAMES_MAX
 * frames, every return address on the path following a call of the function that it is the return address of. Notes the
 * path, and what is doubtful about it. */
static bool unwinds_to_root(struct search *search, struct candidate *candidate) {
  struct walk *walk = search->walk;
  struct unwinder *unwinder = walk->unwinder;
  struct unwind_registers before = walk->registers;
  uint64_t returns_to = walk->returns_to;
  struct cursor cursor = search->cursor;
  bool interrupted = search->interrupted, leads = false;
  int number = unwinder->architecture->frame_pointer;
  uint64_t at = search->pc;
  walk->registers.values[number] = candidate->record;
  walk->registers.known |= UINT64_C(1) << number;
  candidate->mismatches = candidate->frames = 0;
  candidate->is_lost = false;
  candidate->top = 0;
  int depth = 0;
  for (; depth < UNWIND_FRAMES_MAX; depth++) {
    struct cursor callee = cursor;
    uint64_t pc = 0, sp = 0;
    struct code_range function, whole;
    bool described = find_function(&callee, interrupted, &function);
    int result = step_out(search, &cursor, at, interrupted);
    if (result < 0) {
      candidate->is_lost = walk->no_module || walk->no_info;
      break;
    }
    if (result == 0 || !cunwind_cursor_pc(&cursor, &pc) || pc == 0) {
      if (described && candidate->frames < PATH_FRAMES_MAX)
        candidate->path[candidate->frames++] = (struct path_frame){function, UINT64_MAX, at, CALL_SITE_OTHER};
      leads = true;
      break;
    }
    if (!cunwind_cursor_sp(&cursor, &sp))
      break;
    interrupted = cunwind_cursor_was_interrupted(&callee, &cursor);
    enum call_site site = CALL_SITE_POSSIBLE;
    if (!interrupted) {
      if (described)
        site = cunwind_call_site_before(unwinder, cunwind_code_address(unwinder, pc), function, &whole);
      else if (!cunwind_follows_call(unwinder, cunwind_code_address(unwinder, pc)))
        site = CALL_SITE_OTHER;
      if (site == CALL_SITE_OTHER) {
        candidate->is_lost = !described;
        break;
      }
      if (site == CALL_SITE_POSSIBLE && described)
        site = cunwind_call_site_of_frame(&cursor, function);
      candidate->mismatches += site == CALL_SITE_OTHER;
    }
    if (described && candidate->frames < PATH_FRAMES_MAX)
      candidate->path[candidate->frames++] = (struct path_frame){function, sp, at, site};
    candidate->top = sp;
    at = cunwind_code_address(unwinder, pc);
  }
  walk->registers = before;
  walk->returns_to = returns_to;
  return leads || depth == UNWIND_FRAMES_MAX;
}

/* Whether a call of CALLER's that led to both frames, by a jump from one function to the other, cannot have led to
 * OTHER after ONE. */
static bool came_later(struct unwinder *unwinder, const struct path_frame *caller, const struct path_frame *one,
                       const struct path_frame *other) {
  struct code_range none = {0};
  bool grows;
  return !cunwind_function_reaches(unwinder, one->function, other->function, one->pc, other->pc, &grows) &&
         !cunwind_function_reaches(unwinder, caller->function, none, caller->pc, caller->pc, &grows);
}

/* Whether what is on the path outwards from ONE shows that the frame record is not at OTHER's place. If it were, ONE's
 * would have been left behind by calls that are over. Both paths meet in a frame, at the latest in the outermost one.
 * It cannot have made the call on ONE's path before that on OTHER's, if nothing leads there from where the former
 * returned to. (It could have made it when it was called before, at the very same place: that is not believed.) */
static bool rules_out(struct unwinder *unwinder, const struct candidate *one, const struct candidate *other) {
  for (int index = 0; index < other->frames; index++)
    for (int match = 0; match < one->frames; match++) {
      const struct path_frame *there = &other->path[index], *here = &one->path[match];
      struct code_range none = {0};
      bool grows;
      if (there->caller_sp != here->caller_sp || there->function.start != here->function.start)
        continue;
      if (match == 0)
        return false;
      /* One call led to one function only: the one that it is more likely to have led to, or the one from which others
       * have been called since. */
      if (here->pc == there->pc && index > 0) {
        const struct path_frame *called = &one->path[match - 1], *other_called = &other->path[index - 1];
        if (called->site > CALL_SITE_POSSIBLE && other_called->site > CALL_SITE_POSSIBLE)
          return came_later(unwinder, here, called, other_called);
        return called->site > other_called->site || (called->site == other_called->site && index == 1 && match > 1);
      }
      /* It is the frame that is looked for, in a call of its own: then it must have made more room since. */
      bool reaches = cunwind_function_reaches(unwinder, here->function, none, here->pc, there->pc, &grows);
      return !reaches || (index == 0 && !grows);
    }
  return false;
}

/* Whether RECORD does not contradict what FACTS and VALUES tell of the frame. */
static bool agrees(struct search *search, const struct frame_facts *facts, const struct symbol_values *values,
                   uint64_t record) {
  int frame_pointer = search->walk->unwinder->architecture->frame_pointer;
  struct symbol_values with_record = *values;
  cunwind_learn(&with_record, facts->state.registers[frame_pointer], record);
  cunwind_conclude(search->walk, facts, &with_record);
  return !with_record.contradicted;
}

/* Whether ADDRESS is in a module. */
static bool is_in_module(const struct search *search, uint64_t address) {
  struct unwind_module module;
  return cunwind_find_module(search->walk->unwinder, address, &module);
}

/* Whether ADDRESS is on the stack from the frame outwards. */
static bool is_on_stack(const struct search *search, uint64_t address) {
  const struct stack_copy *copy = search->walk->copy;
  return address >= search->sp && address < copy->stack_start + copy->stack_bytes;
}

/* What the call before the return address in the frame record at RECORD is to the frame; whether it is EXACT, if that
 * is of a part. */
static enum call_site find_site(struct search *search, uint64_t record, bool *exact) {
  struct unwinder *unwinder = search->walk->unwinder;
  struct frame_facts *facts = &unwinder->search->facts_of_whole;
  struct code_range whole;
  uint64_t return_address, found, saved;
  *exact = false;
  if (record % RECORD_ALIGNMENT != 0 || !cunwind_word(search->walk, record + 8, &return_address))
    return CALL_SITE_OTHER;
  /* Most words that point to no module point to data, and would be read for nothing. */
  if (!is_in_module(search, cunwind_code_address(unwinder, return_address)) &&
      (!cunwind_word(search->walk, record, &saved) || saved <= record || !is_on_stack(search, saved)))
    return CALL_SITE_OTHER;
  enum call_site site =
      cunwind_call_site_before(unwinder, cunwind_code_address(unwinder, return_address), search->function, &whole);
  if (site != CALL_SITE_OF_WHOLE)
    return site;
  /* What is known of a part's frame is known by way of the whole. */
  struct symbol_values values = {.known = 0};
  if (!cunwind_frame_facts(unwinder, whole, search->function, search->pc, search->interrupted, false, facts))
    return CALL_SITE_OTHER;
  cunwind_learn(&values, facts->state.registers[unwinder->architecture->sp], search->sp);
  cunwind_conclude(search->walk, facts, &values);
  *exact = cunwind_value(&values, facts->state.registers[unwinder->architecture->frame_pointer], &found);
  if (*exact)
    return found == record ? site : CALL_SITE_OTHER;
  return agrees(search, facts, &values, record) ? site : CALL_SITE_OTHER;
}

/* Between which addresses the facts leave room for the frame pointer. */
static void bounds_of(const struct search *search, uint64_t *low, uint64_t *high) {
  *low = search->sp;
  *high = UINT64_MAX;
  if (!search->has_facts)
    return;
  const struct frame_facts *facts = &search->facts;
  const struct unwind_architecture *architecture = search->walk->unwinder->architecture;
  struct symbolic_value sp = facts->state.registers[architecture->sp];
  struct symbolic_value frame_pointer = facts->state.registers[architecture->frame_pointer];
  /* From the symbol of the stack pointer to what that was made of, until it is the frame pointer's. */
  uint64_t from = search->sp - (uint64_t)(int64_t)sp.offset, slack = 0;
  bool bounded = true;
  int number = sp.symbol;
  for (int depth = 0; depth < SYMBOLS_MAX && number != frame_pointer.symbol; depth++) {
    const struct symbol *symbol = &facts->symbols[number];
    if (frame_pointer.symbol == 0 || frame_pointer.shift != 0 || symbol->kind == SYMBOL_FREE)
      return;
    bounded &= symbol->kind == SYMBOL_ALIGNED;
    slack += symbol->kind == SYMBOL_ALIGNED ? ~(uint64_t)symbol->mask : 0;
    from -= (uint64_t)(int64_t)symbol->parent.offset;
    number = symbol->parent.symbol;
  }
  *low = from + (uint64_t)(int64_t)frame_pointer.offset;
  if (bounded)
    *high = *low + slack;
}

/* Finds the places that may be the frame record. Returns how many there are, or -1 when there are too many. */
static int find_candidates(struct search *search, bool parts_only, struct candidate *candidates) {
  const struct stack_copy *copy = search->walk->copy;
  int count = 0;
  uint64_t end = copy->stack_start + copy->stack_bytes, low = search->sp, high = UINT64_MAX;
  if (!parts_only)
    bounds_of(search, &low, &high);
  if (low < search->sp)
    low = search->sp;
  if (low > end) /* nor near the end of all addresses, where the next one is the first */
    return 0;
  for (uint64_t record = (low + RECORD_ALIGNMENT - 1) & ~(uint64_t)(RECORD_ALIGNMENT - 1);
       record + 16 <= end && record <= high; record += RECORD_ALIGNMENT) {
    if (count == CANDIDATES_MAX)
      return -1;
    struct candidate *candidate = &candidates[count];
    candidate->record = record;
    candidate->site = find_site(search, record, &candidate->exact);
    bool is_part = candidate->site == CALL_SITE_OF_WHOLE;
    if (candidate->site == CALL_SITE_OTHER || (parts_only && !is_part) ||
        (search->has_facts && !is_part && !agrees(search, &search->facts, &search->values, record)))
      continue;
    if (unwinds_to_root(search, candidate))
      count++;
    else if (candidate->is_lost && candidate->site > search->lost)
      search->lost = candidate->site;
  }
  return count;
}

/* Whether a place below END may be the frame record by a call from code that is in no module. */
static bool may_be_called_from_no_module(struct search *search, uint64_t end) {
  struct unwinder *unwinder = search->walk->unwinder;
  uint64_t low = search->sp, high = UINT64_MAX, word;
  bounds_of(search, &low, &high);
  for (uint64_t record = (low + RECORD_ALIGNMENT - 1) & ~(uint64_t)(RECORD_ALIGNMENT - 1); record < end;
       record += RECORD_ALIGNMENT)
    if (cunwind_word(search->walk, record + 8, &word) && !is_on_stack(search, word) &&
        !is_in_module(search, cunwind_code_address(unwinder, word)) &&
        (!search->has_facts || agrees(search, &search->facts, &search->values, record)) &&
        cunwind_follows_call(unwinder, cunwind_code_address(unwinder, word)))
      return true;
  return false;
}

/* A part of a function is not called, so that a call of its whole speaks against all others; even more so if the place
 * is the only one that the code allows. */
static int fitness(const struct candidate *candidate) {
  return candidate->exact ? 2 : candidate->site == CALL_SITE_OF_WHOLE ? 1 : 0;
}

/* Looks at every place. What earlier, deeper calls left behind looks just like a frame record, so it must be the only
 * one that a call of this very function can have made. */
static bool search_everywhere(struct search *search, bool parts_only, uint64_t *found) {
  struct candidate *candidates = search->walk->unwinder->search->candidates;
  const struct candidate *chosen = NULL;
  int count = find_candidates(search, parts_only, candidates);
  /* A path that ends below the end of another one came to a word that was 0 by chance. */
  uint64_t top = 0;
  int best = 0, kept = 0;
  for (int index = 0; index < count; index++)
    if (candidates[index].top > top)
      top = candidates[index].top;
  for (int index = 0; index < count; index++)
    if (candidates[index].top == top && fitness(&candidates[index]) > best)
      best = fitness(&candidates[index]);
  for (int index = 0; index < count; index++)
    if (candidates[index].top == top && fitness(&candidates[index]) == best)
      candidates[kept++] = candidates[index];
  for (int index = 0; index < kept; index++) {
    const struct candidate *candidate = &candidates[index];
    bool stands_alone = true;
    for (int other = 0; other < kept && stands_alone; other++)
      stands_alone = other == index ||
                     (candidate->mismatches == 0 && rules_out(search->walk->unwinder, candidate, &candidates[other]));
    if (!stands_alone)
      continue;
    if (chosen)
      return false;
    chosen = candidate;
  }
  /* Any call through a pointer can have led here, that out of the outermost frame above all: it proves nothing where
   * another path may go on. */
  if (!chosen || (chosen->site == CALL_SITE_POSSIBLE &&
                  (search->lost != CALL_SITE_OTHER || may_be_called_from_no_module(search, chosen->record))))
    return false;
  *found = chosen->record;
  return true;
}

/* Whether the function, which nothing describes, is gone through from where it begins to where it is, and keeps a frame
 * pointer. */
static bool keeps_frame_pointer(const struct search *search) {
  const struct unwind_architecture *architecture = search->walk->unwinder->architecture;
  return search->has_facts && search->facts.origin == FACTS_BY_PATHS &&
         search->facts.state.registers[architecture->frame_pointer].symbol == 1 + architecture->sp;
}

bool cunwind_recover_frame_pointer(const struct cursor *cursor, bool interrupted, uint64_t *found) {
  struct walk *walk = cursor->walk;
  struct unwinder *unwinder = walk->unwinder;
  const struct unwind_architecture *architecture = unwinder->architecture;
  struct search *search = &unwinder->search->search;
  struct caller_registers *known = &unwinder->search->known;
  struct candidate *candidate = &unwinder->search->candidate;
  *search = (struct search){.walk = walk, .cursor = *cursor, .interrupted = interrupted};
  cunwind_settle(&search->cursor);
  uint64_t sp = 0, pc = 0;
  if (!cunwind_cursor_sp(&search->cursor, &sp) || !cunwind_cursor_pc(&search->cursor, &pc) ||
      !find_function(&search->cursor, interrupted, &search->function) || sp < walk->copy->stack_start)
    return false;
  bool is_bare = !cunwind_has_cfi(walk, pc - !interrupted);
  search->pc = pc;
  search->sp = sp;
  cunwind_call_sites_forget(unwinder);
  struct code_range none = {0};
  cunwind_caller_registers(&search->cursor, &search->interrupted, known);
  search->has_facts =
      cunwind_frame_facts(unwinder, search->function, none, pc, search->interrupted, false, &search->facts);
  if (is_bare && !keeps_frame_pointer(search))
    return false;
  if (!search->has_facts)
    return search_everywhere(search, false, found);
  cunwind_caller_learn(architecture, known, &search->facts, sp, &search->values);
  cunwind_conclude(walk, &search->facts, &search->values);
  *candidate = (struct candidate){0};
  struct symbolic_value frame_pointer = search->facts.state.registers[architecture->frame_pointer];
  if (search->values.contradicted || !cunwind_value(&search->values, frame_pointer, &candidate->record))
    return search_everywhere(search, false, found);
  if (find_site(search, candidate->record, &candidate->exact) != CALL_SITE_OTHER &&
      unwinds_to_root(search, candidate)) {
    *found = candidate->record;
    return true;
  }
  /* A part of a function that stands elsewhere is not entered at its beginning. */
  return search_everywhere(search, true, found);
}
