#define _GNU_SOURCE
#include "observer_module.h"

#include <dlfcn.h>

/* Weak: on a C library before 2.35 the service still starts, and the watchdog says what it lacks. */
#if defined(DLFO_EH_SEGMENT_TYPE)
#pragma weak _dl_find_object

bool observer_module_available(void) { return _dl_find_object != NULL; }

bool observer_module_find(uint64_t address, struct observer_module *module) {
  struct dl_find_object found;
  if (!_dl_find_object || _dl_find_object((void *)(uintptr_t)address, &found) != 0)
    return false;
  module->start = (uint64_t)(uintptr_t)found.dlfo_map_start;
  module->end = (uint64_t)(uintptr_t)found.dlfo_map_end;
  module->eh_frame_hdr = (uint64_t)(uintptr_t)found.dlfo_eh_frame;
  return true;
}
#else
bool observer_module_available(void) { return false; }

bool observer_module_find(uint64_t address, struct observer_module *module) {
  (void)address;
  (void)module;
  return false;
}
#endif
