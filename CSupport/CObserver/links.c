#include "links.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "observer_module.h"
#include "unwind_walk.h"

enum observer_call_kind observer_link_before(uint64_t return_address, uint64_t function, bool *of_function) {
  uint8_t code[OBSERVER_CALL_BYTES];
  uint64_t target = 0;
  struct observer_module module;
  *of_function = false;
  if (!observer_module_find(return_address, &module) ||
      !observer_walk_read(return_address - sizeof code, code, sizeof code))
    return OBSERVER_CALL_NONE;
  enum observer_call_kind kind = observer_arch_call_before(code, return_address, &target);
  /* The kernel calls a signal's handler, as through a pointer. */
  uint8_t trampoline[OBSERVER_SIGNAL_RETURN_BYTES];
  if (kind == OBSERVER_CALL_NONE && observer_walk_read(return_address, trampoline, sizeof trampoline) &&
      observer_arch_signal_return(trampoline))
    return OBSERVER_CALL_INDIRECT;
  if (kind != OBSERVER_CALL_DIRECT)
    return kind;
  uint8_t stub[OBSERVER_PROLOGUE_BYTES];
  uint64_t slot, resolved;
  *of_function = target == function || (observer_walk_read(target, stub, sizeof stub) &&
                                        observer_arch_stub(stub, target, &slot) &&
                                        observer_walk_read(slot, &resolved, sizeof resolved) && resolved == function);
  return kind;
}

#endif
