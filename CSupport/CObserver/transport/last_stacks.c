#include "transport/observer_last_stacks.h"

#include "slots/observer_stall.h"

#include <string.h>

static struct place {
  atomic_flag is_taken;
  uint32_t slot;
  uint64_t item; /* 0: none */
  struct observer_last_stacks kept;
} places[OBSERVER_LAST_STALLS];

void observer_last_stacks_start(void) {
  for (int index = 0; index < OBSERVER_LAST_STALLS; index++) {
    memset(&places[index], 0, sizeof places[index]);
    atomic_flag_clear_explicit(&places[index].is_taken, memory_order_release);
  }
}

static bool take(struct place *place) {
  return !atomic_flag_test_and_set_explicit(&place->is_taken, memory_order_acquire);
}

static void release(struct place *place) { atomic_flag_clear_explicit(&place->is_taken, memory_order_release); }

static bool is_in_use(const struct place *place) {
  const struct observer_stall *table = observer_stall_table_if_any();
  struct observer_stall_snapshot view;
  if (place->item == 0 || !table)
    return false;
  observer_stall_read(&table[place->slot], &view);
  return view.item == place->item;
}

static bool is_equal(const struct observer_last_stack *kept, const struct unwind_stack *stack, uint32_t count) {
  if (kept->count != count)
    return false;
  for (uint32_t index = 0; index < count; index++)
    if (kept->addresses[index] != stack->frames[index].address)
      return false;
  return true;
}

static void add(struct observer_last_stacks *kept, const struct unwind_stack *stack) {
  uint32_t count = stack->count < OBSERVER_LAST_FRAMES ? stack->count : OBSERVER_LAST_FRAMES;
  struct observer_last_stack *found = NULL;
  /* The first stack stays; the rarest other stack is replaced. */
  for (int index = 0; index < OBSERVER_LAST_STACKS; index++) {
    struct observer_last_stack *one = &kept->stacks[index];
    if (one->samples > 0 && is_equal(one, stack, count)) {
      one->samples++;
      return;
    }
    if ((index > 0 || one->samples == 0) && (!found || one->samples < found->samples))
      found = one;
  }
  found->samples = 1;
  found->count = count;
  found->end = (uint8_t)(count < stack->count ? UNWIND_END_FRAME_LIMIT : stack->end);
  for (uint32_t index = 0; index < count; index++) {
    found->addresses[index] = stack->frames[index].address;
    found->kinds[index] = (uint8_t)stack->frames[index].kind;
  }
}

void observer_last_stacks_add(uint32_t slot, uint64_t item, const struct unwind_stack *stack) {
  struct place *place = &places[slot % OBSERVER_LAST_STALLS];
  if (stack->count == 0 || !take(place))
    return;
  bool is_own = place->slot == slot && place->item == item;
  if (!is_own && !is_in_use(place)) {
    memset(&place->kept, 0, sizeof place->kept);
    place->slot = slot;
    place->item = item;
    is_own = true;
  }
  if (is_own)
    add(&place->kept, stack);
  release(place);
}

bool observer_last_stacks_read(uint32_t slot, uint64_t item, struct observer_last_stacks *stacks) {
  struct place *place = &places[slot % OBSERVER_LAST_STALLS];
  if (!take(place))
    return false;
  bool is_own = place->slot == slot && place->item == item;
  if (is_own)
    *stacks = place->kept;
  release(place);
  return is_own;
}
