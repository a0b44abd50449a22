#include "decode.h"

#include "known_modules.h"
#include "process_memory.h"

#include <string.h>

bool cunwind_read_code(struct unwinder *unwinder, uint64_t address, uint8_t *code) {
  enum { PAGE = 4096 };
  if (cunwind_read(unwinder, address, code, CODE_BYTES))
    return true;
  size_t length = PAGE - (size_t)(address % PAGE);
  memset(code, 0, CODE_BYTES);
  return length < CODE_BYTES && cunwind_read(unwinder, address, code, length);
}

size_t cunwind_decode_at(struct unwinder *unwinder, uint64_t address, struct code_operation *operations, int *count) {
  uint8_t code[CODE_BYTES];
  *count = 0;
  if (!cunwind_read_code(unwinder, address, code))
    return 0;
  size_t length = unwinder->architecture->decode(code, address, operations, count);
  if (!cunwind_is_kept(unwinder, address) || (length > 0 && !cunwind_is_kept(unwinder, address + length - 1)))
    cunwind_learnt_elsewhere(unwinder);
  return length;
}
