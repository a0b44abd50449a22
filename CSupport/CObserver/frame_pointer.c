#include "frame_pointer.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "caller.h"
#include "links.h"

#include <string.h>

/* Places that may be the frame record, at most: with more, none is believed. */
enum { CANDIDATES_MAX = 12, RECORD_ALIGNMENT = 16 };

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

/* A place that may be it. */
struct candidate {
  uint64_t record;
  enum observer_link link;
};

/* Whether the frame of CALLEE, which has the canonical frame address CFA, keeps its frame record at RECORD. */
static bool keeps_record(unw_cursor_t *callee, uint64_t cfa, uint64_t record) {
#if defined(__x86_64__)
  (void)callee;
  return record + 16 == cfa;
#else
  unw_word_t frame_pointer;
  (void)cfa;
  return observer_libunwind.get_reg(callee, observer_arch_frame_pointer(), &frame_pointer) == 0 && frame_pointer == record;
#endif
}

/* Whether a frame pointer of RECORD leads from the frame to the outermost one, every return address on the way following a
 * call of the function that it is the return address of. With OTHER not 0: whether it does, and an outer frame of another
 * function has its record there. */
static bool leads_out(struct search *search, uint64_t record, uint64_t other) {
  struct walk *walk = search->walk;
  struct observer_registers before = walk->registers;
  unw_cursor_t cursor = search->cursor;
  bool interrupted = search->interrupted, leads = false, passes = other == 0;
  int number = observer_arch_frame_pointer();
  walk->registers.values[number] = record;
  walk->registers.known |= UINT64_C(1) << number;
  for (int depth = 0; depth < OBSERVER_FRAMES_MAX; depth++) {
    unw_cursor_t callee = cursor;
    unw_word_t pc = 0, sp = 0;
    struct code_range function, whole;
    bool described = observer_walk_frame_function(&callee, &function);
    int result = observer_walk_step(walk, &cursor, interrupted);
    if (result < 0)
      break;
    if (result == 0 || observer_libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0) {
      leads = true;
      break;
    }
    if (observer_libunwind.get_reg(&cursor, UNW_REG_SP, &sp) != 0)
      break;
    interrupted = observer_walk_interrupted(&callee, &cursor);
    if (!interrupted && (!described || observer_link_before(observer_arch_code_address(pc), function, &whole) ==
                                           OBSERVER_LINK_NONE))
      break;
    passes |= depth > 0 && described && function.start != search->function.start && keeps_record(&callee, sp, other);
  }
  walk->registers = before;
  return leads && passes;
}

/* Whether RECORD does not contradict what FACTS and VALUES tell of the frame. */
static bool agrees(struct search *search, const struct frame_facts *facts, const struct fact_values *values,
                   uint64_t record) {
  struct fact_values with_record = *values;
  observer_fact_learn(&with_record, facts->state.registers[CODE_FRAME_POINTER], record);
  observer_fact_conclude(search->walk, facts, &with_record);
  return !with_record.contradicted;
}

/* How the return address in the frame record at RECORD is linked to the frame. */
static enum observer_link link_of(struct search *search, uint64_t record) {
  static struct frame_facts facts;
  struct code_range whole;
  uint64_t return_address, found;
  if (record % RECORD_ALIGNMENT != 0 || !observer_walk_word(search->walk, record + 8, &return_address))
    return OBSERVER_LINK_NONE;
  enum observer_link link = observer_link_before(observer_arch_code_address(return_address), search->function, &whole);
  if (link != OBSERVER_LINK_PART)
    return link;
  /* What is known of a part's frame is known by way of the whole. */
  struct fact_values values = {.known = 0};
  if (!observer_frame_facts(whole, search->function, search->pc, search->interrupted, &facts))
    return OBSERVER_LINK_NONE;
  observer_fact_learn(&values, facts.state.registers[CODE_SP], search->sp);
  observer_fact_conclude(search->walk, &facts, &values);
  if (observer_fact_value(&values, facts.state.registers[CODE_FRAME_POINTER], &found))
    return found == record ? link : OBSERVER_LINK_NONE;
  return agrees(search, &facts, &values, record) ? link : OBSERVER_LINK_NONE;
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

/* Looks at every place. What earlier, deeper calls left behind looks just like a frame record, so it must be the only one that
 * a call of this very function can have made. */
static bool look_everywhere(struct search *search, bool parts_only, uint64_t *found) {
  const struct observer_copy *copy = search->walk->copy;
  struct candidate candidates[CANDIDATES_MAX];
  int count = 0, chosen = -1;
  uint64_t end = copy->stack_start + copy->stack_bytes, low = search->sp, high = UINT64_MAX;
  if (!parts_only)
    bounds_of(search, &low, &high);
  if (low < search->sp)
    low = search->sp;
  for (uint64_t record = (low + RECORD_ALIGNMENT - 1) & ~(uint64_t)(RECORD_ALIGNMENT - 1);
       record + 16 <= end && record <= high; record += RECORD_ALIGNMENT) {
    enum observer_link link = link_of(search, record);
    if (link == OBSERVER_LINK_NONE || (parts_only && link != OBSERVER_LINK_PART))
      continue;
    if (search->has_facts && link != OBSERVER_LINK_PART && !agrees(search, &search->facts, &search->values, record))
      continue;
    if (!leads_out(search, record, 0))
      continue;
    if (count == CANDIDATES_MAX)
      return false;
    candidates[count++] = (struct candidate){record, link};
  }
  /* The frame record of an outer frame may be that of a call which could have led here, too. It is not, if the way outwards
   * from another candidate shows that the call led to another function. */
  for (int index = 0; index < count; index++) {
    bool explains_all = true;
    for (int other = 0; other < count && explains_all; other++)
      explains_all = other == index || (candidates[other].link == OBSERVER_LINK_PERHAPS &&
                                        leads_out(search, candidates[index].record, candidates[other].record));
    if (!explains_all)
      continue;
    if (chosen >= 0)
      return false;
    chosen = index;
  }
  if (chosen < 0)
    return false;
  *found = candidates[chosen].record;
  return true;
}

bool observer_find_frame_pointer(struct walk *walk, const unw_cursor_t *cursor, bool interrupted, uint64_t *found) {
  static struct search search;
  static struct caller_registers known;
  search = (struct search){.walk = walk, .cursor = *cursor, .interrupted = interrupted};
  unw_word_t sp = 0, pc = 0;
  if (observer_libunwind.get_reg(&search.cursor, UNW_REG_SP, &sp) != 0 ||
      observer_libunwind.get_reg(&search.cursor, UNW_REG_IP, &pc) != 0 ||
      !observer_walk_frame_function(&search.cursor, &search.function) || sp < walk->copy->stack_start)
    return false;
  search.pc = pc;
  search.sp = sp;
  observer_links_forget();
  struct code_range none = {0};
  observer_caller_registers(walk, &search.cursor, &search.interrupted, &known);
  search.has_facts = observer_frame_facts(search.function, none, pc, search.interrupted, &search.facts);
  if (!search.has_facts)
    return look_everywhere(&search, false, found);
  observer_caller_learn(&known, &search.facts, sp, &search.values);
  observer_fact_conclude(walk, &search.facts, &search.values);
  uint64_t record;
  if (search.values.contradicted ||
      !observer_fact_value(&search.values, search.facts.state.registers[CODE_FRAME_POINTER], &record))
    return look_everywhere(&search, false, found);
  if (link_of(&search, record) != OBSERVER_LINK_NONE && leads_out(&search, record, 0)) {
    *found = record;
    return true;
  }
  /* A part of a function that stands elsewhere is not entered at its beginning. */
  return look_everywhere(&search, true, found);
}

#endif
