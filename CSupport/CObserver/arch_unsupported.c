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

uint64_t observer_arch_red_zone(void) { return 0; }

bool observer_arch_unwind_register(const struct observer_registers *registers, int number, uint64_t *value) {
  (void)registers;
  (void)number;
  (void)value;
  return false;
}

uint64_t observer_arch_code_address(uint64_t address) { return address; }

#endif
