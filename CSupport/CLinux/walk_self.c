#include "clinux_walk_self.h"

#include <execinfo.h>

size_t clinux_walk_self(uint64_t *addresses, size_t count) {
  enum { MOST = 128 };
  void *found[MOST];
  int number = backtrace(found, count < MOST ? (int)count : MOST);
  for (int index = 0; index < number; index++)
    addresses[index] = (uint64_t)(uintptr_t)found[index];
  return number > 0 ? (size_t)number : 0;
}
