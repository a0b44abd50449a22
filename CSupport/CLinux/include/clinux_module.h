/* Which module an address is in, without the loader's lock.
 *
 * dl_iterate_phdr(3) takes a lock that the stalled thread may hold (it may be inside dlopen); glibc's _dl_find_object
 * (2.35 and later) takes none and is documented as async-signal-safe. Where it is missing, /proc/self/maps tells.
 */
#ifndef CLINUX_MODULE_H
#define CLINUX_MODULE_H

#include "clinux_base.h"

/* How modules are found in this process. */
enum clinux_module_way {
  CLINUX_MODULES_BY_LOADER = 0, /* _dl_find_object */
  CLINUX_MODULES_BY_MAPS = 1,   /* /proc/self/maps, read again when clinux_module_forget was called */
  CLINUX_MODULES_UNKNOWN = 2,   /* not at all: no stack can be unwound */
};

/* Chooses the way: the loader, if USE_LOADER and the C library can tell. To be called once clinux_memory_start has
 * been. Async-signal-safe: yes. Threads: any, one at a time, while no stack is unwound. */
enum clinux_module_way clinux_module_start(bool use_loader);

/* Forgets what /proc/self/maps showed: a module may have been loaded or replaced since.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS void clinux_module_forget(void);

struct clinux_module {
  uint64_t start;        /* lowest address of the module's mappings */
  uint64_t end;          /* one past the highest */
  uint64_t eh_frame_hdr; /* address of its .eh_frame_hdr (PT_GNU_EH_FRAME), 0 if it has none */
};

/* Finds the module that ADDRESS is in. Returns false when there is none (code made at run time, or a module that is
 * gone). The answer holds until the module is unloaded.
 * Async-signal-safe: yes. Threads: the monitor; with CLINUX_MODULES_BY_LOADER any. */
bool clinux_module_find(uint64_t address, struct clinux_module *module);

/* What the loader knows of the module that ADDRESS is in: where it begins, and its file in PATH, which has room for
 * LENGTH bytes and is empty for the executable. Returns false when the loader does not tell. Async-signal-safe: yes.
 * Threads: any. */
bool clinux_module_file(uint64_t address, uint64_t *start, char *path, size_t length);

/* What this process was started as, as the kernel was told (AT_EXECFN of getauxval(3)); NULL if it does not say.
 * Async-signal-safe: yes. Threads: any. */
const char *clinux_module_executable(void);

#endif
