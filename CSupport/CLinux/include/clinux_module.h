/* Finds the module of an address without the loader's lock, which a stalled thread might hold. _dl_find_object (glibc
 * 2.35 and later) takes no lock, unlike dl_iterate_phdr(3). */
#ifndef CLINUX_MODULE_H
#define CLINUX_MODULE_H

#include "clinux_base.h"

enum clinux_module_way {
  CLINUX_MODULES_BY_LOADER = 0, /* _dl_find_object */
  CLINUX_MODULES_BY_MAPS = 1,   /* /proc/thread-self/maps, read again after clinux_module_forget */
  CLINUX_MODULES_UNKNOWN = 2,   /* no stack can be unwound */
};

/* Selects the method: CLINUX_MODULES_BY_LOADER if USE_LOADER is set and the C library supports it. Async-signal-safe:
 * yes. Threads: any, one at a time, while no stack is unwound. */
enum clinux_module_way clinux_module_start(bool use_loader);

/* Drops the calling context's list of modules, which might be outdated. Async-signal-safe: yes. Threads: a sampler, in
 * its own context. */
CLINUX_NO_LOCKS void clinux_module_forget(void);

struct clinux_module {
  uint64_t start;
  uint64_t end; /* one past the highest address */
  uint64_t eh_frame_hdr;
};

/* Finds the module that contains ADDRESS. Returns false if there is none. Async-signal-safe: yes. Threads: one at a
 * time in each context below CLINUX_CONTEXTS_MAX; with CLINUX_MODULES_BY_LOADER any. */
bool clinux_module_find(uint64_t address, struct clinux_module *module);

/* Finds the module that contains ADDRESS. Sets *START to its start and PATH, of LENGTH bytes, to its file (empty for
 * the executable). Returns false if unknown. Async-signal-safe: yes. Threads: any. */
bool clinux_module_file(uint64_t address, uint64_t *start, char *path, size_t length);

/* Returns the path of this program as passed to the kernel (AT_EXECFN of getauxval(3)); NULL if unknown.
 * Async-signal-safe: yes. Threads: any. */
const char *clinux_module_executable(void);

#endif
