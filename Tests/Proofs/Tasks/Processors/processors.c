#define _GNU_SOURCE
#include "Processors.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static long requested(void) {
  const char *text = getenv("PROCESSORS");
  return text ? atol(text) : 0;
}

/* Replaces the C library's function for the whole process, because the program defines it. */
int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *set) {
  int (*real)(pthread_t, size_t, cpu_set_t *) =
      (int (*)(pthread_t, size_t, cpu_set_t *))dlsym(RTLD_NEXT, "pthread_getaffinity_np");
  long count = requested();
  if (count <= 0)
    return real(thread, bytes, set);
  CPU_ZERO_S(bytes, set);
  for (long number = 0; number < count; number++)
    CPU_SET_S((size_t)number, bytes, set);
  return 0;
}

long sysconf(int name) {
  long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  long count = requested();
  return count > 0 && (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) ? count : real(name);
}

long processors_reported(void) { return sysconf(_SC_NPROCESSORS_ONLN); }
