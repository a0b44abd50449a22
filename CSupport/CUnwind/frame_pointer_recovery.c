#include "frame_pointer_recovery.h"

#include "call_site.h"
#include "caller_registers.h"
#include "dataflow/solve.h"
#include "function_start.h"
#include "no_cfi.h"
#include "process_memory.h"
#include "unwind_tables.h"

#include <string.h>

enum { CANDIDATES_MAX = 24, RECORD_ALIGNMENT = 16 };

enum { PATH_FRAMES_MAX = 64 };

enum { BARE_STEPS_MAX = 100 };

struct search {
  struct walk *walk;
  struct cursor cursor;
  bool interrupted;
  struct code_range function;
  uint64_t pc, sp;
  struct frame_facts facts;
  struct symbol_values values;
  bool has_facts;
  int bare_steps;
  enum call_site lost; /* best site of a candidate whose path leads to code without unwind information */
};

struct path_frame {
  struct code_range function;
  uint64_t caller_sp;
  uint64_t pc;
  enum call_site site;
};

struct candidate {
  uint64_t record;
  enum call_site site;
  bool exact;     /* the code allows no other record */
  bool is_lost;   /* the path leads to code without unwind information */
  int mismatches; /* calls on the path whose operands now show another target */
  uint64_t top;   /* highest stack pointer on the path */
  int frames;
  struct path_frame path[PATH_FRAMES_MAX];
};

struct frame_pointer_search {
  struct search search;
  struct caller_registers known;
  struct frame_facts facts_of_whole;
  struct candidate candidate;
  struct candidate candidates[CANDIDATES_MAX];
};

size_t cunwind_frame_pointer_search_bytes(void) { return sizeof(struct frame_pointer_search); }

static bool find_function(struct cursor *cursor, bool interrupted, struct code_range *function) {
  struct unwinder *unwinder = cursor->walk->unwinder;
  uint64_t pc = cunwind_code_address(unwinder, cunwind_cursor_pc(cursor));
  return cunwind_function_at(unwinder, pc - !interrupted, function);
}

/* Steps from CURSOR's frame at PC to its caller, by unwind tables or by code analysis. */
static int step_out(struct search *search, struct cursor *cursor, uint64_t pc, bool interrupted) {
  struct walk *walk = search->walk;
  struct cursor callee = *cursor;
  struct caller_frame caller;
  int result = cunwind_cursor_step(cursor);
  if ((!walk->no_module && !walk->no_info) || cursor->was_interrupted)
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

/* Whether CANDIDATE leads to the outermost frame, or through UNWIND_FRAMES_MAX frames, and each return address on the
 * path follows a call of the next inner frame's function. */
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
    struct code_range function, whole;
    bool is_known = find_function(&callee, interrupted, &function);
    int result = step_out(search, &cursor, at, interrupted);
    if (result < 0) {
      candidate->is_lost = walk->no_module || walk->no_info;
      break;
    }
    uint64_t pc = cunwind_cursor_pc(&cursor), sp = cursor.sp;
    if (result == 0 || pc == 0) {
      if (is_known && candidate->frames < PATH_FRAMES_MAX)
        candidate->path[candidate->frames++] = (struct path_frame){function, UINT64_MAX, at, CALL_SITE_OTHER};
      leads = true;
      break;
    }
    interrupted = cursor.was_interrupted;
    enum call_site site = CALL_SITE_POSSIBLE;
    if (!interrupted && is_known) {
      site = cunwind_call_site_before(unwinder, cunwind_code_address(unwinder, pc), function, &whole);
      if (site == CALL_SITE_OTHER)
        break;
      if (site == CALL_SITE_POSSIBLE)
        site = cunwind_call_site_of_frame(&cursor, function);
      candidate->mismatches += site == CALL_SITE_OTHER;
    }
    if (is_known && candidate->frames < PATH_FRAMES_MAX)
      candidate->path[candidate->frames++] = (struct path_frame){function, sp, at, site};
    candidate->top = sp;
    at = cunwind_code_address(unwinder, pc);
  }
  walk->registers = before;
  walk->returns_to = returns_to;
  return leads || depth == UNWIND_FRAMES_MAX;
}

/* CALLER's call has led to ONE and to OTHER, by a jump between their functions. Whether the call cannot have reached
 * OTHER after ONE. */
static bool came_later(struct unwinder *unwinder, const struct path_frame *caller, const struct path_frame *one,
                       const struct path_frame *other) {
  struct code_range none = {0};
  bool grows;
  return !cunwind_function_reaches(unwinder, one->function, other->function, one->pc, other->pc, &grows) &&
         !cunwind_function_reaches(unwinder, caller->function, none, caller->pc, caller->pc, &grows);
}

/* Whether the path of ONE proves that OTHER is not the frame record. If OTHER were the frame record, ONE would be a
 * remnant of finished calls. Both paths share a frame, at least the outermost. ONE cannot be a remnant if no code path
 * in the innermost shared frame leads from ONE's call to OTHER's call. */
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
      if (here->pc == there->pc && index > 0) {
        const struct path_frame *called = &one->path[match - 1], *other_called = &other->path[index - 1];
        if (called->site > CALL_SITE_POSSIBLE && other_called->site > CALL_SITE_POSSIBLE)
          return came_later(unwinder, here, called, other_called);
        return called->site > other_called->site || (called->site == other_called->site && index == 1 && match > 1);
      }
      /* A remnant lies above the searched frame's stack pointer (INDEX 0) only if this stack pointer was lowered
       * later. */
      bool reaches = cunwind_function_reaches(unwinder, here->function, none, here->pc, there->pc, &grows);
      return !reaches || (index == 0 && !grows);
    }
  return false;
}

static bool agrees(struct search *search, const struct frame_facts *facts, const struct symbol_values *values,
                   uint64_t record) {
  int frame_pointer = search->walk->unwinder->architecture->frame_pointer;
  struct symbol_values with_record = *values;
  cunwind_learn(&with_record, facts->state.registers[frame_pointer], record);
  cunwind_conclude(search->walk, facts, &with_record);
  return !with_record.contradicted;
}

static bool is_in_module(const struct search *search, uint64_t address) {
  struct unwind_module module;
  return cunwind_find_module(search->walk->unwinder, address, &module);
}

static bool is_on_stack(const struct search *search, uint64_t address) {
  const struct stack_copy *copy = search->walk->copy;
  return address >= search->sp && address < copy->stack_start + copy->stack_bytes;
}

static enum call_site find_site(struct search *search, uint64_t record, bool *exact) {
  struct unwinder *unwinder = search->walk->unwinder;
  struct frame_facts *facts = &unwinder->search->facts_of_whole;
  struct code_range whole;
  uint64_t return_address, found, saved;
  *exact = false;
  if (record % RECORD_ALIGNMENT != 0 || !cunwind_word(search->walk, record + 8, &return_address))
    return CALL_SITE_OTHER;
  /* Most words that point outside of modules are data addresses. Skipping them avoids useless reads. */
  if (!is_in_module(search, cunwind_code_address(unwinder, return_address)) &&
      (!cunwind_word(search->walk, record, &saved) || saved <= record || !is_on_stack(search, saved)))
    return CALL_SITE_OTHER;
  enum call_site site =
      cunwind_call_site_before(unwinder, cunwind_code_address(unwinder, return_address), search->function, &whole);
  if (site != CALL_SITE_OF_WHOLE)
    return site;
  /* The facts of an outlined part's frame come from the whole function. */
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

/* Bounds the frame pointer by its distance from the stack pointer, as far as the code determines the distance. */
static void bounds_of(const struct search *search, uint64_t *low, uint64_t *high) {
  *low = search->sp;
  *high = UINT64_MAX;
  if (!search->has_facts)
    return;
  const struct frame_facts *facts = &search->facts;
  const struct unwind_architecture *architecture = search->walk->unwinder->architecture;
  struct symbolic_value sp = facts->state.registers[architecture->sp];
  struct symbolic_value frame_pointer = facts->state.registers[architecture->frame_pointer];
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

static int find_candidates(struct search *search, bool parts_only, struct candidate *candidates) {
  const struct stack_copy *copy = search->walk->copy;
  int count = 0;
  uint64_t end = copy->stack_start + copy->stack_bytes, low = search->sp, high = UINT64_MAX;
  if (!parts_only)
    bounds_of(search, &low, &high);
  if (low < search->sp)
    low = search->sp;
  if (low > end) /* also prevents an overflow below */
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

/* Whether an address below END can be the frame record of a call from code outside of all modules. */
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

/* Returns 2 if the code allows no other record; 1 for a call of the whole function, because an outlined part is not
 * called directly; otherwise 0. */
static int fitness(const struct candidate *candidate) {
  return candidate->exact ? 2 : candidate->site == CALL_SITE_OF_WHOLE ? 1 : 0;
}

/* Searches the stack for the frame record. If PARTS_ONLY is set, the frame's function must be an outlined part of the
 * called function. */
static bool search_everywhere(struct search *search, bool parts_only, uint64_t *found) {
  struct candidate *candidates = search->walk->unwinder->search->candidates;
  const struct candidate *chosen = NULL;
  int count = find_candidates(search, parts_only, candidates);
  /* If one path ends below another path's end, the lower path has ended at a word that is accidentally 0. */
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
  /* Any indirect call can have led to this function, including a call by code that cannot be unwound. */
  if (!chosen || (chosen->site == CALL_SITE_POSSIBLE &&
                  (search->lost != CALL_SITE_OTHER || may_be_called_from_no_module(search, chosen->record))))
    return false;
  *found = chosen->record;
  return true;
}

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
  uint64_t sp = cursor->sp, pc = cunwind_cursor_pc(cursor);
  if (!find_function(&search->cursor, interrupted, &search->function) || sp < walk->copy->stack_start)
    return false;
  bool is_bare = !cunwind_is_described(unwinder, pc - !interrupted);
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
  /* An outlined part of a function is not entered at its beginning. */
  return search_everywhere(search, true, found);
}
