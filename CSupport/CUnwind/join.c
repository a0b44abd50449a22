#include "join.h"

#include "call_site.h"
#include "function_start.h"
#include "no_cfi.h"
#include "process_memory.h"
#include "unwind_tables.h"

#include <string.h>

enum { KEPT = 16, RECORDS_MAX = 256 };

enum { CALLED_MAX = 16, FUNCTION_BYTES_MAX = 1 << 20 };

struct kept {
  struct unwind_work_item item;
  uint64_t used;
  uint32_t count, left_out;
  struct unwind_frame frames[UNWIND_FRAMES_MAX];
  uint64_t places[UNWIND_FRAMES_MAX];
};

struct called {
  struct unwind_frame frame;
  uint64_t place;
};

struct kept_stacks {
  struct kept kept[KEPT];
  uint64_t uses;
};

size_t cunwind_kept_stacks_bytes(void) { return sizeof(struct kept_stacks); }

static bool is_same(const struct unwind_work_item *one, const struct unwind_work_item *other) {
  return one->slot == other->slot && one->generation == other->generation && one->began_ns == other->began_ns &&
         one->tid == other->tid;
}

static struct kept *find(struct kept_stacks *stacks, const struct unwind_work_item *item) {
  for (int index = 0; index < KEPT && stacks->kept[index].used != 0; index++)
    if (is_same(&stacks->kept[index].item, item))
      return &stacks->kept[index];
  return NULL;
}

static struct kept *room_for(struct kept_stacks *stacks, const struct unwind_work_item *item) {
  struct kept *room = find(stacks, item);
  if (room)
    return room;
  room = &stacks->kept[0];
  for (int index = 1; index < KEPT; index++)
    if (stacks->kept[index].used < room->used)
      room = &stacks->kept[index];
  return room;
}

static void keep(struct kept_stacks *stacks, const struct unwind_work_item *item, const struct unwind_stack *stack) {
  struct kept *room = room_for(stacks, item);
  room->item = *item;
  room->used = ++stacks->uses;
  room->count = stack->count;
  room->left_out = stack->left_out;
  memcpy(room->frames, stack->frames, stack->count * sizeof stack->frames[0]);
  memcpy(room->places, stack->places, stack->count * sizeof stack->places[0]);
}

static bool is_there(struct unwinder *unwinder, const struct stack_copy *copy, const struct kept *kept, uint32_t number,
                     uint64_t sp) {
  struct walk walk = {.unwinder = unwinder, .copy = copy};
  uint64_t word, place = kept->places[number];
  return place >= sp && place >= copy->stack_start && place - copy->stack_start < copy->stack_bytes &&
         cunwind_word(&walk, place, &word) && cunwind_code_address(unwinder, word) == kept->frames[number].address;
}

/* Sets *FUNCTION to FRAME's function if its beginning is known. */
static bool function_of(const struct unwind_frame *frame, struct code_range *function) {
  *function = (struct code_range){frame->address - frame->offset, frame->address + 1, false};
  return frame->offset != UNWIND_NO_OFFSET;
}

/* Whether the call of frame NUMBER can only have led to the function of the next inner frame. */
static bool leads_inwards(struct unwinder *unwinder, const struct kept *kept, uint32_t number) {
  struct code_range function, whole;
  if (number == 0 || kept->frames[number].kind != UNWIND_RETURN_ADDRESS ||
      !function_of(&kept->frames[number - 1], &function))
    return false;
  return cunwind_call_site_before(unwinder, kept->frames[number].address, function, &whole) >= CALL_SITE_OF_WHOLE;
}

static bool is_on_chain(struct unwinder *unwinder, const struct stack_copy *copy, uint64_t frame_pointer, uint64_t sp,
                        uint64_t place) {
  struct walk walk = {.unwinder = unwinder, .copy = copy};
  for (int index = 0; index < RECORDS_MAX; index++) {
    if (frame_pointer % 8 != 0 || frame_pointer < sp || frame_pointer >= place)
      return false;
    if (frame_pointer + 8 == place)
      return true;
    sp = frame_pointer + 16;
    if (!cunwind_word(&walk, frame_pointer, &frame_pointer))
      return false;
  }
  return false;
}

static bool has_other_call(struct unwinder *unwinder, const struct stack_copy *copy, uint64_t sp, uint64_t place) {
  struct walk walk = {.unwinder = unwinder, .copy = copy};
  uint64_t word;
  struct unwind_module module;
  for (uint64_t at = (sp + 7) & ~UINT64_C(7); at < place; at += 8) {
    if (!cunwind_word(&walk, at, &word))
      return true;
    word = cunwind_code_address(unwinder, word);
    if (cunwind_find_module(unwinder, word, &module) && cunwind_follows_call(unwinder, word))
      return true;
  }
  return false;
}

/* Returns the number of KEPT's innermost frame that is proven live, or KEPT's count if there is none. */
static uint32_t find_frame(struct unwinder *unwinder, const struct stack_copy *copy, const struct kept *kept,
                           const struct unwind_stack *stack) {
  uint32_t innermost = kept->count, found = kept->count;
  uint32_t lowest = kept->left_out > 0 ? UNWIND_FRAMES_INNER : 1;
  while (innermost > lowest &&
         (kept->places[innermost - 1] == 0 || is_there(unwinder, copy, kept, innermost - 1, stack->last_sp)))
    innermost--;
  bool is_alive = true; /* the outermost frame is always live */
  for (uint32_t number = kept->count; number-- > innermost;) {
    uint64_t place = kept->places[number];
    if (place != 0 && !is_alive)
      is_alive = is_on_chain(unwinder, copy, stack->last_frame_pointer, stack->last_sp, place);
    if (place != 0 && is_alive)
      found = number;
    is_alive = is_alive && leads_inwards(unwinder, kept, number);
  }
  if (found != innermost && innermost < kept->count && kept->places[innermost] != 0 &&
      !has_other_call(unwinder, copy, stack->last_sp, kept->places[innermost]))
    found = innermost;
  return found;
}

/* Returns the outermost return address between SP and END that follows a call in the function beginning at START; 0 if
 * there is none. Sets *PLACE to its stack address. */
static uint64_t find_call_of(struct unwinder *unwinder, const struct stack_copy *copy, uint64_t start, uint64_t sp,
                             uint64_t end, uint64_t *place) {
  struct walk walk = {.unwinder = unwinder, .copy = copy};
  uint64_t word;
  struct code_range function;
  for (*place = (end & ~UINT64_C(7)) - 8; *place >= sp && *place < end; *place -= 8) {
    if (!cunwind_word(&walk, *place, &word))
      return 0;
    word = cunwind_code_address(unwinder, word);
    if (word - start - 1 < FUNCTION_BYTES_MAX && cunwind_function_at(unwinder, word - 1, &function) &&
        function.start == start && cunwind_follows_call(unwinder, word))
      return word;
  }
  return 0;
}

static uint64_t called_before(struct unwinder *unwinder, uint64_t return_address) {
  uint64_t target;
  struct code_range function;
  return cunwind_call_before(unwinder, return_address, &target) == UNWIND_CALL_DIRECT &&
                 cunwind_function_at(unwinder, target, &function) && function.start == target
             ? target
             : 0;
}

/* Finds up to ROOM frames that must exist inside KEPT's frame FROM, outermost first: a frame of the only function to
 * which FROM's call can have led, a frame of the function which that frame calls directly, and so on. Returns the
 * number of frames. */
static uint32_t find_called(struct unwinder *unwinder, const struct stack_copy *copy, const struct kept *kept,
                            uint32_t from, const struct unwind_stack *stack, struct called *called, uint32_t room) {
  struct code_range function;
  uint64_t end = kept->places[from], place;
  uint64_t start =
      leads_inwards(unwinder, kept, from) && function_of(&kept->frames[from - 1], &function) ? function.start : 0;
  const struct unwind_frame *last = &stack->frames[stack->count - 1];
  uint64_t known = last->offset == UNWIND_NO_OFFSET ? 0 : last->address - last->offset;
  uint32_t count = 0;
  while (count < room && start != 0 && start != known) {
    uint64_t word = find_call_of(unwinder, copy, start, stack->last_sp, end, &place);
    if (word == 0)
      break;
    called[count].frame = (struct unwind_frame){word, UNWIND_RETURN_ADDRESS, (uint32_t)(word - start)};
    called[count++].place = place;
    end = place;
    start = called_before(unwinder, word);
  }
  return count;
}

void cunwind_join(struct unwinder *unwinder, const struct stack_copy *copy, struct unwind_work_item item,
                  struct unwind_stack *stack) {
  struct kept_stacks *stacks = unwinder->kept;
  /* Only the thread's own stack is joined: other stacks might reuse the same addresses. */
  if (item.began_ns == 0 || stack->count == 0 || copy->own_end != copy->own_low)
    return;
  if (stack->end == UNWIND_END_OUTERMOST) {
    keep(stacks, &item, stack);
    return;
  }
  struct kept *kept = find(stacks, &item);
  if (!kept || stack->left_out > 0)
    return;
  uint32_t from = find_frame(unwinder, copy, kept, stack), joined = kept->count - from;
  if (joined == 0)
    return;
  kept->used = ++stacks->uses;
  if (joined > UNWIND_FRAMES_MAX - stack->count)
    return;
  struct called called[CALLED_MAX];
  uint32_t room = UNWIND_FRAMES_MAX - stack->count - joined;
  uint32_t between = find_called(unwinder, copy, kept, from, stack, called, room < CALLED_MAX ? room : CALLED_MAX);
  stack->joined_from = stack->count;
  while (between-- > 0) {
    stack->frames[stack->count] = called[between].frame;
    stack->places[stack->count++] = called[between].place;
  }
  memcpy(&stack->frames[stack->count], &kept->frames[from], joined * sizeof kept->frames[0]);
  memcpy(&stack->places[stack->count], &kept->places[from], joined * sizeof kept->places[0]);
  stack->end = UNWIND_END_OUTERMOST;
  stack->count += joined;
}
