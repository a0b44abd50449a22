#include "stack_comparison.h"

static bool are_equal(const struct unwind_frame *one, const struct unwind_frame *other, uint32_t count) {
  for (uint32_t frame = 0; frame < count; frame++) {
    uint64_t difference = one[frame].address - other[frame].address;
    if (difference != 0 && !(frame == 0 && (difference == 2 || difference == 4)))
      return false;
  }
  return true;
}

enum stack_comparison stack_compare(const struct unwind_stack *outside, const struct unwind_stack *signalled) {
  uint32_t shorter = outside->count < signalled->count ? outside->count : signalled->count;
  if (!are_equal(outside->frames, signalled->frames, shorter))
    return STACK_WRONG;
  if (outside->count == signalled->count && outside->end == signalled->end)
    return STACK_EQUAL;
  return outside->count == shorter && outside->end != UNWIND_END_OUTERMOST ? STACK_CUT : STACK_WRONG;
}
