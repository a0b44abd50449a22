#ifndef OBSERVER_RESIDENCY_H
#define OBSERVER_RESIDENCY_H

#include "base/observer_base.h"

/* Keeps code resident that must run even if no disk can be read: CLINUX_RESIDENT_CODE, and the C library's functions
 * that this code calls. Returns whether all of it is locked. Async-signal-safe: no. Threads: any. */
bool observer_keep_own_code_resident(void);

#endif
