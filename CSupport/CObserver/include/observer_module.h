/* Which module an address is in, without the loader's lock.
 *
 * dl_iterate_phdr(3) takes a lock that the stalled thread may hold (it may be inside dlopen); glibc's _dl_find_object
 * (2.35 and later) takes none and is documented as async-signal-safe.
 */
#ifndef OBSERVER_MODULE_H
#define OBSERVER_MODULE_H

#include "observer_base.h"

struct observer_module {
  uint64_t start;        /* lowest address of the module's mappings */
  uint64_t end;          /* one past the highest */
  uint64_t eh_frame_hdr; /* address of its .eh_frame_hdr (PT_GNU_EH_FRAME), 0 if it has none */
};

/* Whether modules can be found in this process: false on a C library without _dl_find_object.
 * Async-signal-safe: yes. Threads: any. */
bool observer_module_available(void);

/* Finds the module that ADDRESS is in. Returns false when there is none (code made at run time, or a module that is
 * gone). The answer holds until the module is unloaded.
 * Async-signal-safe: yes. Threads: any. */
bool observer_module_find(uint64_t address, struct observer_module *module);

#endif
