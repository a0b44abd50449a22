#include "frame_walk.h"

#include "observer_arch.h"

/* Looks up how far above the stack pointer the function at FUNCTION keeps its frame pointer. */
static bool frame_bytes(frame_read read, uint64_t function, uint64_t *bytes) {
  uint8_t code[OBSERVER_PROLOGUE_BYTES];
  return read(function, code, sizeof code) && observer_arch_frame_bytes(code, bytes);
}

/* Looks up which function the call before RETURN_ADDRESS leads to. */
static bool call_target(frame_read read, uint64_t return_address, uint64_t *target) {
  uint8_t code[OBSERVER_CALL_BYTES], stub[OBSERVER_PROLOGUE_BYTES];
  uint64_t slot;
  if (!read(return_address - sizeof code, code, sizeof code))
    return false;
  if (observer_arch_call_slot(code, return_address, &slot))
    return read(slot, target, sizeof *target);
  if (observer_arch_call_before(code, return_address, target) != OBSERVER_CALL_DIRECT)
    return false;
  if (read(*target, stub, sizeof stub) && observer_arch_stub(stub, *target, &slot))
    return read(slot, target, sizeof *target);
  return true;
}

bool frame_called(frame_read read, uint64_t return_address, uint64_t function) {
  uint64_t target;
  return call_target(read, return_address, &target) && target == function;
}

bool frame_pointer_fits(frame_read read, uint64_t function, uint64_t sp, uint64_t frame_pointer,
                        uint64_t return_address) {
  uint64_t bytes, target;
  if (frame_bytes(read, function, &bytes))
    return frame_pointer == sp + bytes;
  if (!call_target(read, return_address, &target))
    return false;
  /* A part of a function that compilers have put elsewhere is not called, and has the frame of the whole. */
  return target == function || (frame_bytes(read, target, &bytes) && frame_pointer == sp + bytes);
}
