#define _GNU_SOURCE
#include "clinux_environment.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

const char *clinux_environment(const char *name) { return secure_getenv(name); }

const char *clinux_environment_entry(int index) {
  /* environ is NULL after clearenv(3). */
  if (environ == NULL || getauxval(AT_SECURE) != 0)
    return NULL;
  return environ[index];
}
