#define _GNU_SOURCE
#include "own_stack.h"

#include "base/observer_machine.h"
#include "clinux_memory.h"

#include <string.h>
#include <ucontext.h>
CLINUX_RESIDENT_CODE

/* The head of ucontext_t in a signal frame; identical on all architectures. */
struct context_head {
  uint64_t flags;
  uint64_t link;
  uint64_t alternate_start;
  uint64_t alternate_flags;
  uint64_t alternate_bytes;
};
_Static_assert(offsetof(ucontext_t, uc_link) == offsetof(struct context_head, link) &&
                   offsetof(ucontext_t, uc_stack.ss_sp) == offsetof(struct context_head, alternate_start) &&
                   offsetof(ucontext_t, uc_stack.ss_size) == offsetof(struct context_head, alternate_bytes),
               "context_head has the layout of ucontext_t");

/* Kernels set only the low flags of a context. */
enum { CONTEXT_FLAGS_MAX = 0xff };

/* Finds an interrupted stack pointer between LOW and HIGH, in a signal frame in COPY. The frame must lie on the
 * alternate stack that it records. */
static bool interrupted_sp(const struct stack_copy *copy, uint64_t low, uint64_t high, uint64_t *sp) {
  for (uint64_t at = -copy->stack_start % 8; at + sizeof(ucontext_t) <= copy->stack_bytes; at += 8) {
    struct context_head head;
    memcpy(&head, copy->stack + at, sizeof head);
    if (head.flags > CONTEXT_FLAGS_MAX || head.link != 0 ||
        copy->stack_start + at - head.alternate_start >= head.alternate_bytes)
      continue;
    struct unwind_registers registers;
    observer_machine_registers(copy->stack + at, &registers);
    *sp = observer_machine_sp(&registers);
    if (*sp >= low && *sp < high)
      return true;
  }
  return false;
}

void observer_copy_own_stack(struct stack_copy *copy, uint8_t *stack, size_t capacity, uint64_t low, uint64_t high) {
  uint64_t sp;
  copy->own_low = low;
  copy->own_end = high;
  if (low == high || !interrupted_sp(copy, low, high, &sp))
    return;
  copy->own_start = sp - observer_machine_red_zone();
  size_t wanted = (size_t)(high - copy->own_start);
  if (wanted > capacity - copy->stack_bytes && wanted > capacity / 2)
    wanted = capacity - copy->stack_bytes > capacity / 2 ? capacity - copy->stack_bytes : capacity / 2;
  if (wanted > capacity - copy->stack_bytes) {
    copy->stack_bytes = capacity - wanted;
    copy->truncated = true;
  }
  copy->own_bytes = clinux_memory_read_some(copy->own_start, stack + copy->stack_bytes, wanted);
}
