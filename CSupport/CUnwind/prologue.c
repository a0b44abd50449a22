#include "prologue.h"

#include "call_site.h"
#include "process_memory.h"

static bool call_target(struct unwinder *unwinder, uint64_t return_address, uint64_t *target) {
  uint8_t code[UNWIND_CALL_BYTES];
  uint64_t entry;
  if (!cunwind_read(unwinder, return_address - sizeof code, code, sizeof code))
    return false;
  if (unwinder->architecture->calls_got_entry(code, return_address, &entry))
    return cunwind_read(unwinder, entry, target, sizeof *target);
  if (unwinder->architecture->call_before(code, return_address, target) != UNWIND_CALL_DIRECT)
    return false;
  *target = cunwind_resolve_plt(unwinder, *target);
  return true;
}

bool cunwind_calls(struct unwinder *unwinder, uint64_t return_address, uint64_t function) {
  uint64_t target;
  return call_target(unwinder, return_address, &target) && target == function;
}
