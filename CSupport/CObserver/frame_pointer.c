#include "frame_pointer.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "caller.h"
#include "exploration.h"
#include "links.h"
#include "observer_context.h"

#include <string.h>

/* Places that may be the frame record, at most: with more, none is believed. */
enum { CANDIDATES_MAX = 24, RECORD_ALIGNMENT = 16 };

/* Frames on the way outwards from such a place that are remembered. */
enum { WAY_MAX = 64 };

/* The frame whose frame pointer is looked for. */
struct search {
  struct walk *walk;
  unw_cursor_t cursor;
  bool interrupted;
  struct code_range function; /* its function */
  uint64_t pc, sp;
  struct frame_facts facts;
  struct fact_values values;  /* what is known of the frame without its frame pointer */
  bool has_facts;
};

/* A frame on the way outwards. */
struct way_frame {
  struct code_range function;
  uint64_t caller_sp;      /* the stack pointer where its caller called it */
  uint64_t pc;             /* where it is itself */
  enum observer_link link; /* of its caller's call to it */
};

/* A place that may be it. */
struct candidate {
  uint64_t record;
  enum observer_link link;
  bool exact;   /* it is at a distance from the stack pointer that the code tells */
  int doubts;   /* calls on the way outwards that do not seem to lead to where they would have led */
  uint64_t top; /* the highest stack pointer on the way */
  int frames;
  struct way_frame way[WAY_MAX];
};

/* Whether a frame pointer of CANDIDATE's leads from the frame to the outermost one, or through OBSERVER_FRAMES_MAX frames, every
 * return address on the way following a call of the function that it is the return address of. Notes the way, and what is
 * doubtful about it. */
static bool leads_out(struct search *search, struct candidate *candidate) {
  struct walk *walk = search->walk;
  struct observer_registers before = walk->registers;
  unw_cursor_t cursor = search->cursor;
  bool interrupted = search->interrupted, leads = false;
  int number = observer_arch_frame_pointer();
  uint64_t at = search->pc;
  walk->registers.values[number] = candidate->record;
  walk->registers.known |= UINT64_C(1) << number;
  candidate->doubts = candidate->frames = 0;
  candidate->top = 0;
  int depth = 0;
  for (; depth < OBSERVER_FRAMES_MAX; depth++) {
    unw_cursor_t callee = cursor;
    unw_word_t pc = 0, sp = 0;
    struct code_range function, whole;
    bool described = observer_walk_frame_function(&callee, &function);
    int result = observer_walk_step(walk, &cursor, interrupted);
    if (result < 0)
      break;
    if (result == 0 || observer_libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0) {
      if (described && candidate->frames < WAY_MAX)
        candidate->way[candidate->frames++] = (struct way_frame){function, UINT64_MAX, at, OBSERVER_LINK_NONE};
      leads = true;
      break;
    }
    if (observer_libunwind.get_reg(&cursor, UNW_REG_SP, &sp) != 0)
      break;
    interrupted = observer_walk_interrupted(&callee, &cursor);
    enum observer_link link = OBSERVER_LINK_PERHAPS;
    if (!interrupted) {
      link = described ? observer_link_before(observer_arch_code_address(pc), function, &whole) : OBSERVER_LINK_NONE;
      if (link == OBSERVER_LINK_NONE)
        break;
      if (link == OBSERVER_LINK_PERHAPS)
        link = observer_link_of_frame(walk, &cursor, function);
      candidate->doubts += link == OBSERVER_LINK_NONE;
    }
    if (described && candidate->frames < WAY_MAX)
      candidate->way[candidate->frames++] = (struct way_frame){function, sp, at, link};
    candidate->top = sp;
    at = observer_arch_code_address(pc);
  }
  walk->registers = before;
  return leads || depth == OBSERVER_FRAMES_MAX;
}

/* Whether a call of CALLER's that led to both frames, by a jump from one function to the other, cannot have led to OTHER
 * after ONE. */
static bool came_later(const struct way_frame *caller, const struct way_frame *one, const struct way_frame *other) {
  struct code_range none = {0};
  bool grows;
  return !observer_function_comes(one->function, other->function, one->pc, other->pc, &grows) &&
         !observer_function_comes(caller->function, none, caller->pc, caller->pc, &grows);
}

/* Whether what is on the way outwards from ONE shows that the frame record is not at OTHER's place. If it were, ONE's
 * would have been left behind by calls that are over. Both ways meet in a frame, at the latest in the outermost one. It
 * cannot have made the call on ONE's way before that on OTHER's, if nothing leads there from where the former returned
 * to. (It could have made it when it was called before, at the very same place: that is not believed.) */
static bool rules_out(const struct candidate *one, const struct candidate *other) {
  for (int index = 0; index < other->frames; index++)
    for (int match = 0; match < one->frames; match++) {
      const struct way_frame *there = &other->way[index], *here = &one->way[match];
      struct code_range none = {0};
      bool grows;
      if (there->caller_sp != here->caller_sp || there->function.start != here->function.start)
        continue;
      if (match == 0)
        return false;
      /* One call led to one function only: the one that it is more likely to have led to, or the one from which others
       * have been called since. */
      if (here->pc == there->pc && index > 0) {
        const struct way_frame *called = &one->way[match - 1], *other_called = &other->way[index - 1];
        if (called->link > OBSERVER_LINK_PERHAPS && other_called->link > OBSERVER_LINK_PERHAPS)
          return came_later(here, called, other_called);
        return called->link > other_called->link ||
               (called->link == other_called->link && index == 1 && match > 1);
      }
      /* It is the frame that is looked for, in a call of its own: then it must have made more room since. */
      bool comes = observer_function_comes(here->function, none, here->pc, there->pc, &grows);
      return !comes || (index == 0 && !grows);
    }
  return false;
}

/* Whether RECORD does not contradict what FACTS and VALUES tell of the frame. */
static bool agrees(struct search *search, const struct frame_facts *facts, const struct fact_values *values,
                   uint64_t record) {
  struct fact_values with_record = *values;
  observer_fact_learn(&with_record, facts->state.registers[CODE_FRAME_POINTER], record);
  observer_fact_conclude(search->walk, facts, &with_record);
  return !with_record.contradicted;
}

/* How the return address in the frame record at RECORD is linked to the frame; whether it is EXACT, if that is of a part. */
static enum observer_link link_of(struct search *search, uint64_t record, bool *exact) {
  static struct frame_facts rooms[OBSERVER_CONTEXTS_MAX];
  struct frame_facts *facts = &rooms[observer_context];
  struct code_range whole;
  uint64_t return_address, found;
  *exact = false;
  if (record % RECORD_ALIGNMENT != 0 || !observer_walk_word(search->walk, record + 8, &return_address))
    return OBSERVER_LINK_NONE;
  enum observer_link link = observer_link_before(observer_arch_code_address(return_address), search->function, &whole);
  if (link != OBSERVER_LINK_PART)
    return link;
  /* What is known of a part's frame is known by way of the whole. */
  struct fact_values values = {.known = 0};
  if (!observer_frame_facts(whole, search->function, search->pc, search->interrupted, false, facts))
    return OBSERVER_LINK_NONE;
  observer_fact_learn(&values, facts->state.registers[CODE_SP], search->sp);
  observer_fact_conclude(search->walk, facts, &values);
  *exact = observer_fact_value(&values, facts->state.registers[CODE_FRAME_POINTER], &found);
  if (*exact)
    return found == record ? link : OBSERVER_LINK_NONE;
  return agrees(search, facts, &values, record) ? link : OBSERVER_LINK_NONE;
}

/* Between which addresses the facts leave room for the frame pointer. */
static void bounds_of(const struct search *search, uint64_t *low, uint64_t *high) {
  *low = search->sp;
  *high = UINT64_MAX;
  if (!search->has_facts)
    return;
  const struct frame_facts *facts = &search->facts;
  struct fact_value sp = facts->state.registers[CODE_SP], frame_pointer = facts->state.registers[CODE_FRAME_POINTER];
  /* From the base of the stack pointer to what that was made of, until it is the frame pointer's. */
  uint64_t from = search->sp - (uint64_t)(int64_t)sp.offset, slack = 0;
  bool bounded = true;
  int base = sp.base;
  for (int depth = 0; depth < FACT_BASES && base != frame_pointer.base; depth++) {
    const struct fact_base *made = &facts->bases[base];
    if (frame_pointer.base == 0 || frame_pointer.shift != 0 || made->kind == FACT_FREE)
      return;
    bounded &= made->kind == FACT_ALIGNED;
    slack += made->kind == FACT_ALIGNED ? ~(uint64_t)made->mask : 0;
    from -= (uint64_t)(int64_t)made->parent.offset;
    base = made->parent.base;
  }
  *low = from + (uint64_t)(int64_t)frame_pointer.offset;
  if (bounded)
    *high = *low + slack;
}

/* Finds the places that may be the frame record. Returns how many there are, or -1 when there are too many. */
static int find_candidates(struct search *search, bool parts_only, struct candidate *candidates) {
  const struct observer_copy *copy = search->walk->copy;
  int count = 0;
  uint64_t end = copy->stack_start + copy->stack_bytes, low = search->sp, high = UINT64_MAX;
  if (!parts_only)
    bounds_of(search, &low, &high);
  if (low < search->sp)
    low = search->sp;
  for (uint64_t record = (low + RECORD_ALIGNMENT - 1) & ~(uint64_t)(RECORD_ALIGNMENT - 1);
       record + 16 <= end && record <= high; record += RECORD_ALIGNMENT) {
    if (count == CANDIDATES_MAX)
      return -1;
    struct candidate *candidate = &candidates[count];
    candidate->record = record;
    candidate->link = link_of(search, record, &candidate->exact);
    bool is_part = candidate->link == OBSERVER_LINK_PART;
    if (candidate->link == OBSERVER_LINK_NONE || (parts_only && !is_part) ||
        (search->has_facts && !is_part && !agrees(search, &search->facts, &search->values, record)) ||
        !leads_out(search, candidate))
      continue;
    count++;
  }
  return count;
}

/* A part of a function is not called, so that a link to it as to a part speaks against all others; even more so if the place
 * is the only one that the code allows. */
static int fitness(const struct candidate *candidate) {
  return candidate->exact ? 2 : candidate->link == OBSERVER_LINK_PART ? 1 : 0;
}

/* Looks at every place. What earlier, deeper calls left behind looks just like a frame record, so it must be the only
 * one that a call of this very function can have made. */
static bool look_everywhere(struct search *search, bool parts_only, uint64_t *found) {
  static struct candidate rooms[OBSERVER_CONTEXTS_MAX][CANDIDATES_MAX];
  struct candidate *candidates = rooms[observer_context];
  const struct candidate *chosen = NULL;
  int count = find_candidates(search, parts_only, candidates);
  /* A way that ends below the end of another one came to a word that was 0 by chance. */
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
      stands_alone = other == index || (candidate->doubts == 0 && rules_out(candidate, &candidates[other]));
    if (!stands_alone)
      continue;
    if (chosen)
      return false;
    chosen = candidate;
  }
  if (chosen)
    *found = chosen->record;
  return chosen != NULL;
}

bool observer_find_frame_pointer(struct walk *walk, const unw_cursor_t *cursor, bool interrupted, uint64_t *found) {
  static struct room {
    struct search search;
    struct caller_registers known;
    struct candidate candidate;
  } rooms[OBSERVER_CONTEXTS_MAX];
  struct search *search = &rooms[observer_context].search;
  struct caller_registers *known = &rooms[observer_context].known;
  struct candidate *candidate = &rooms[observer_context].candidate;
  *search = (struct search){.walk = walk, .cursor = *cursor, .interrupted = interrupted};
  unw_word_t sp = 0, pc = 0;
  if (observer_libunwind.get_reg(&search->cursor, UNW_REG_SP, &sp) != 0 ||
      observer_libunwind.get_reg(&search->cursor, UNW_REG_IP, &pc) != 0 ||
      !observer_walk_frame_function(&search->cursor, &search->function) || sp < walk->copy->stack_start)
    return false;
  search->pc = pc;
  search->sp = sp;
  observer_links_forget();
  struct code_range none = {0};
  observer_caller_registers(walk, &search->cursor, &search->interrupted, known);
  search->has_facts = observer_frame_facts(search->function, none, pc, search->interrupted, false, &search->facts);
  if (!search->has_facts)
    return look_everywhere(search, false, found);
  observer_caller_learn(known, &search->facts, sp, &search->values);
  observer_fact_conclude(walk, &search->facts, &search->values);
  *candidate = (struct candidate){0};
  if (search->values.contradicted ||
      !observer_fact_value(&search->values, search->facts.state.registers[CODE_FRAME_POINTER], &candidate->record))
    return look_everywhere(search, false, found);
  if (link_of(search, candidate->record, &candidate->exact) != OBSERVER_LINK_NONE && leads_out(search, candidate)) {
    *found = candidate->record;
    return true;
  }
  /* A part of a function that stands elsewhere is not entered at its beginning. */
  return look_everywhere(search, true, found);
}

#endif
