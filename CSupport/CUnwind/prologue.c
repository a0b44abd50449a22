#include "prologue.h"

#include "process_memory.h"

static bool frame_bytes(struct unwinder *unwinder, uint64_t function, uint64_t *bytes) {
  uint8_t code[UNWIND_PROLOGUE_BYTES];
  return cunwind_read(unwinder, function, code, sizeof code) && unwinder->architecture->frame_bytes(code, bytes);
}

static bool call_target(struct unwinder *unwinder, uint64_t return_address, uint64_t *target) {
  uint8_t code[UNWIND_CALL_BYTES], stub[UNWIND_PROLOGUE_BYTES];
  uint64_t entry;
  if (!cunwind_read(unwinder, return_address - sizeof code, code, sizeof code))
    return false;
  if (unwinder->architecture->calls_got_entry(code, return_address, &entry))
    return cunwind_read(unwinder, entry, target, sizeof *target);
  if (unwinder->architecture->call_before(code, return_address, target) != UNWIND_CALL_DIRECT)
    return false;
  if (cunwind_read(unwinder, *target, stub, sizeof stub) && unwinder->architecture->is_plt_stub(stub, *target, &entry))
    return cunwind_read(unwinder, entry, target, sizeof *target);
  return true;
}

bool cunwind_calls(struct unwinder *unwinder, uint64_t return_address, uint64_t function) {
  uint64_t target;
  return call_target(unwinder, return_address, &target) && target == function;
}

bool cunwind_frame_pointer_fits(struct unwinder *unwinder, uint64_t function, uint64_t sp, uint64_t frame_pointer,
                                uint64_t return_address) {
  uint64_t bytes, target;
  if (frame_bytes(unwinder, function, &bytes))
    return frame_pointer == sp + bytes;
  if (!call_target(unwinder, return_address, &target))
    return false;
  /* An outlined part of a function is not called and uses the whole function's frame. */
  return target == function || (frame_bytes(unwinder, target, &bytes) && frame_pointer == sp + bytes);
}
