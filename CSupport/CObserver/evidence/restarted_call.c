#include "evidence/observer_restarted_call.h"

#include "clinux_memory.h"

#include <string.h>
#include <sys/syscall.h>

/* Bytes searched for the instruction that loads the call's number. */
enum { CODE_BYTES = 64, PAGE = 4096 };

static bool is_one_of(uint32_t number, const uint32_t *numbers, int count) {
  for (int index = 0; index < count; index++)
    if (numbers[index] == number)
      return true;
  return false;
}

int32_t observer_restarted_call_x86_64(const uint8_t *code, size_t length) {
  /* poll, nanosleep, futex, clock_nanosleep: the calls for which the kernel keeps a restart_block. */
  static const uint32_t calls[] = {7, 35, 202, 230};
  if (length < 2 || code[length - 2] != 0x0f || code[length - 1] != 0x05)
    return -1;
  for (size_t end = length - 2; end >= 5; end--) {
    uint32_t number;
    memcpy(&number, code + end - 4, sizeof number);
    if (code[end - 5] == 0xb8 && is_one_of(number, calls, 4)) /* mov $number, %eax */
      return (int32_t)number;
  }
  return -1;
}

int32_t observer_restarted_call_aarch64(const uint8_t *code, size_t length) {
  /* ppoll, futex, nanosleep, clock_nanosleep. */
  static const uint32_t calls[] = {73, 98, 101, 115};
  uint32_t instruction;
  if (length < 4)
    return -1;
  memcpy(&instruction, code + length - 4, sizeof instruction);
  if (instruction != 0xd4000001) /* svc #0 */
    return -1;
  for (size_t end = length - 4; end >= 4; end -= 4) {
    memcpy(&instruction, code + end - 4, sizeof instruction);
    uint32_t number = instruction >> 5 & 0xffff;
    if ((instruction & 0x7fe0001f) == 0x52800008 && is_one_of(number, calls, 4)) /* mov x8, #number */
      return (int32_t)number;
  }
  return -1;
}

bool observer_is_restart(int64_t call) { return call == SYS_restart_syscall; }

int32_t observer_restarted_call(uint64_t pc) {
  uint8_t code[CODE_BYTES];
  size_t length = sizeof code;
  if (!clinux_memory_read(pc - length, code, length)) {
    /* The previous page might be unreadable. */
    length = pc % PAGE;
    if (length == 0 || length >= sizeof code || !clinux_memory_read(pc - length, code, length))
      return -1;
  }
#if defined(__aarch64__)
  return observer_restarted_call_aarch64(code, length);
#else
  return observer_restarted_call_x86_64(code, length);
#endif
}
