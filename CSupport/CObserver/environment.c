#define _GNU_SOURCE
#include "observer_environment.h"

#include <stdlib.h>

const char *observer_environment(const char *name) { return secure_getenv(name); }
