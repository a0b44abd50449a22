#define _GNU_SOURCE
#include "hooks.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>

extern void *__libc_stack_end;

static int print_module(struct dl_phdr_info *module, size_t size, void *context) {
  (void)size;
  (void)context;
  uint64_t start = UINT64_MAX, end = 0, header = 0;
  for (int index = 0; index < module->dlpi_phnum; index++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[index];
    uint64_t at = module->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME)
      header = at;
    if (part->p_type != PT_LOAD)
      continue;
    if (at < start)
      start = at;
    if (at + part->p_memsz > end)
      end = at + part->p_memsz;
  }
  hook(HOOK_MODULE, start, end, header, (unsigned long)module->dlpi_name);
  return 0;
}

void announce(void) {
  hook(HOOK_STACK, (unsigned long)__libc_stack_end, 0, 0, 0);
  dl_iterate_phdr(print_module, NULL);
}
