#define _GNU_SOURCE
#include "clinux_clock.h"

#include <dlfcn.h>
#ifdef __GLIBC__
#include <gnu/lib-names.h>
#endif

int (*clinux_clock_gettime)(clockid_t clock, struct timespec *time) = clock_gettime;

/* A preloaded library that fakes the time (libfaketime) does not affect the kernel. Deadlines in faked time would make
 * waits end at once, or never. */
__attribute__((constructor)) static void use_own_clock(void) {
#ifdef __GLIBC__
  void *library = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
  void *own = library ? dlsym(library, "clock_gettime") : NULL;
  if (own)
    clinux_clock_gettime = (int (*)(clockid_t, struct timespec *))own;
  if (library)
    dlclose(library);
#endif
}
