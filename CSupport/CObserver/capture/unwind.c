#define _GNU_SOURCE
#include "capture/observer_unwind.h"

#include "capture/observer_copy.h"
#include "clinux_clock.h"
#include "clinux_context.h"
#include "clinux_memory.h"
#include "clinux_module.h"
#include "clinux_process.h"

#include <string.h>

static struct unwinder *unwinders[CLINUX_CONTEXTS_MAX];

static uint32_t owner;

static bool read_memory(void *context, uint64_t address, void *destination, size_t length) {
  (void)context;
  return clinux_memory_read(address, destination, length);
}

static bool find_module(void *context, uint64_t address, struct unwind_module *module) {
  (void)context;
  struct clinux_module found;
  if (!clinux_module_find(address, &found))
    return false;
  *module = (struct unwind_module){.start = found.start, .end = found.end, .eh_frame_hdr = found.eh_frame_hdr};
  return true;
}

const char *observer_unwind_prepare(void) {
  struct unwinder **unwinder = &unwinders[clinux_context];
  if (*unwinder)
    return NULL;
  if (!cunwind_host())
    return "this processor architecture is not supported";
  /* Cached memory must not get into core files or children. */
  void *memory = observer_copy_map(cunwind_bytes());
  if (!memory)
    return "there is no memory for unwinding";
  const struct unwind_process process = {.read = read_memory, .find_module = find_module};
  *unwinder = cunwind_create(memory, cunwind_host(), process);
  return NULL;
}

const char *observer_unwind_start(void) {
  /* After fork(2) the parent's unwinders are not mapped. */
  if (!clinux_process_is(owner))
    memset(unwinders, 0, sizeof unwinders);
  owner = clinux_process_stamp();
  return observer_unwind_prepare();
}

void observer_unwind(const struct stack_copy *copy, struct unwind_stack *stack) {
  uint64_t began = clinux_clock_ns();
  struct unwinder *unwinder = unwinders[clinux_context];
  stack->count = stack->left_out = stack->joined_from = 0;
  stack->end = UNWIND_END_FAILED;
  if (unwinder)
    cunwind_unwind(unwinder, copy, stack);
  stack->unwind_ns = clinux_clock_ns() - began;
}

void observer_join(const struct stack_copy *copy, struct unwind_work_item item, struct unwind_stack *stack) {
  if (unwinders[clinux_context])
    cunwind_join(unwinders[clinux_context], copy, item, stack);
}

void observer_unwind_wipe(void) {
  if (unwinders[clinux_context])
    cunwind_wipe(unwinders[clinux_context]);
}

void observer_unwind_begin_sample(void) {
  clinux_module_forget();
  if (unwinders[clinux_context])
    cunwind_begin_sample(unwinders[clinux_context]);
}
