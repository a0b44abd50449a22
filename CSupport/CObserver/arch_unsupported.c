#if !defined(__x86_64__) && !defined(__aarch64__)
#include "observer_arch.h"

const char *observer_arch_name(void) { return "unsupported"; }

bool observer_arch_supported(void) { return false; }

void observer_arch_registers(const void *context, struct observer_registers *registers) {
  (void)context;
  (void)registers;
}

uint64_t observer_arch_pc(const struct observer_registers *registers) {
  (void)registers;
  return 0;
}

uint64_t observer_arch_sp(const struct observer_registers *registers) {
  (void)registers;
  return 0;
}

uint64_t observer_arch_thread_pointer(void) { return 0; }

uint64_t observer_arch_red_zone(void) { return 0; }

void observer_arch_set_blocked(struct observer_registers *registers, uint64_t sp, uint64_t pc) {
  (void)registers;
  (void)sp;
  (void)pc;
}

void observer_arch_set_arguments(struct observer_registers *registers, const uint64_t *arguments) {
  (void)registers;
  (void)arguments;
}

int observer_arch_frame_pointer(void) { return -1; }

int observer_arch_result_register(void) { return -1; }

enum observer_call_kind observer_arch_call_before(const uint8_t *code, uint64_t return_address, uint64_t *target) {
  (void)code;
  (void)return_address;
  (void)target;
  return OBSERVER_CALL_NONE;
}

bool observer_arch_call_slot(const uint8_t *code, uint64_t return_address, uint64_t *slot) {
  (void)code;
  (void)return_address;
  (void)slot;
  return false;
}

bool observer_arch_stub(const uint8_t *code, uint64_t address, uint64_t *slot) {
  (void)code;
  (void)address;
  (void)slot;
  return false;
}

bool observer_arch_signal_return(const uint8_t *code) {
  (void)code;
  return false;
}

bool observer_arch_frame_bytes(const uint8_t *code, uint64_t *bytes) {
  (void)code;
  (void)bytes;
  return false;
}

void observer_arch_set_frame(struct observer_registers *registers, uint64_t pc, uint64_t sp, uint64_t frame_pointer,
                             bool has_frame_pointer) {
  (void)frame_pointer;
  (void)has_frame_pointer;
  observer_arch_set_blocked(registers, sp, pc);
}

bool observer_arch_function_ends(const uint8_t *code, size_t length) {
  (void)code;
  (void)length;
  return true;
}

size_t observer_arch_filling(const uint8_t *code) {
  (void)code;
  return 0;
}

uint64_t observer_arch_function_alignment(void) { return 1; }

bool observer_arch_frame_begins(const uint8_t *code) {
  (void)code;
  return false;
}

bool observer_arch_unwind_register(const struct observer_registers *registers, int number, uint64_t *value) {
  (void)registers;
  (void)number;
  (void)value;
  return false;
}

uint64_t observer_arch_code_address(uint64_t address) { return address; }

#endif
