#include "task_memory.h"
#include "tasks/observer_task_search.h"

#include "clinux_memory.h"
#include "clinux_thread_pointer.h"

#include <string.h>
#include <unwind.h>

/* Part of libswift_Concurrency, if linked. */
extern const char swift_task_getCurrent[] __attribute__((weak));

bool observer_swift_task_storage(int64_t *begin, int64_t *end) {
  return swift_task_getCurrent && clinux_thread_pointer_storage(swift_task_getCurrent, begin, end) == 0;
}

static bool has_levels(const struct task_chain *chain, uint32_t levels) {
  if (chain->count <= levels)
    return false;
  for (uint32_t level = 1; level < levels; level++)
    if (chain->functions[level] != chain->functions[0])
      return false;
  return chain->functions[levels] != chain->functions[0];
}

struct frames {
  uint64_t caller; /* an address in the calling function */
  bool has_caller;
  uint64_t function; /* of the next frame */
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *state) {
  struct frames *frames = state;
  uint64_t address = _Unwind_GetIP(context);
  if (frames->has_caller) {
    frames->function = _Unwind_GetRegionStart(context);
    return _URC_END_OF_STACK;
  }
  frames->has_caller = address == frames->caller;
  return _URC_NO_REASON;
}

__attribute__((noinline)) void observer_swift_task_observe(uint64_t task, uint8_t priority, uint32_t levels,
                                                           uint64_t parent, uint64_t label_key,
                                                           struct observer_task_clues *clues) {
  uint64_t words[TASK_WORDS];
  struct task_chain chain;
  struct frames frames = {.caller = (uint64_t)(uintptr_t)__builtin_return_address(0)};
  memset(clues, 0, sizeof *clues);
  size_t count = clinux_memory_read_some(task, words, sizeof words) / sizeof words[0];
  if (count <= RESUME_CONTEXT || !(words[FLAGS] & IS_CHILD) != !parent)
    return;
  for (size_t word = RESUME_CONTEXT + 1; word < count; word++) {
    uint64_t bit = UINT64_C(1) << word;
    if (task_memory_newest_chain(words[word], false, &chain) && has_levels(&chain, levels))
      clues->allocation |= bit;
    if ((words[word] & ~(uint64_t)PRIORITY_BITS) == IS_RUNNING && (words[word] & PRIORITY_BITS) == priority)
      clues->status |= bit;
    if (parent != 0 && words[word] == parent)
      clues->parent |= bit;
    if (task_memory_local(words[word], label_key) != 0)
      clues->locals |= bit;
  }
  clues->kind = words[KIND];
  _Unwind_Backtrace(add_frame, &frames);
  clues->runner = frames.function;
}
