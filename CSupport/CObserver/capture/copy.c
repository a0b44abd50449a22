#define _GNU_SOURCE
#include "capture/observer_copy.h"

#include <string.h>
#include <sys/mman.h>

uint8_t *observer_copy_map(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return NULL;
  madvise(memory, bytes, MADV_DONTDUMP);
  madvise(memory, bytes, MADV_DONTFORK);
  /* Touches the memory now, because the first access takes the address space's lock. */
  *(volatile uint8_t *)memory = 0;
  return memory;
}

void observer_copy_wipe(const struct stack_copy *copy) {
  memset((uint8_t *)(uintptr_t)copy->stack, 0, copy->stack_bytes + copy->own_bytes);
}
