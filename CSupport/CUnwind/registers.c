#include "unwind_architecture.h"

uint64_t cunwind_pc(const struct unwind_architecture *architecture, const struct unwind_registers *registers) {
  return registers->values[architecture->pc];
}

uint64_t cunwind_sp(const struct unwind_architecture *architecture, const struct unwind_registers *registers) {
  return registers->values[architecture->sp];
}

bool cunwind_register(const struct unwind_architecture *architecture, const struct unwind_registers *registers,
                      int number, uint64_t *value) {
  if (number < 0 || number >= architecture->registers || !(registers->known >> number & 1))
    return false;
  *value = registers->values[number];
  return true;
}

void cunwind_set_blocked(const struct unwind_architecture *architecture, struct unwind_registers *registers,
                         uint64_t sp, uint64_t pc) {
  registers->values[architecture->sp] = sp;
  registers->values[architecture->pc] = pc;
  registers->known = UINT64_C(1) << architecture->sp | UINT64_C(1) << architecture->pc;
}

void cunwind_set_arguments(const struct unwind_architecture *architecture, struct unwind_registers *registers,
                           const uint64_t *arguments) {
  for (int index = 0; index < 6; index++) {
    registers->values[architecture->arguments[index]] = arguments[index];
    registers->known |= UINT64_C(1) << architecture->arguments[index];
  }
}

void cunwind_set_frame(const struct unwind_architecture *architecture, struct unwind_registers *registers, uint64_t pc,
                       uint64_t sp, uint64_t frame_pointer, bool has_frame_pointer) {
  cunwind_set_blocked(architecture, registers, sp, pc);
  registers->values[architecture->frame_pointer] = frame_pointer;
  registers->known |= (uint64_t)has_frame_pointer << architecture->frame_pointer;
}
