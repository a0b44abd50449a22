/* Keeps code resident that must run even if no disk can be read. */
#ifndef OBSERVER_RESIDENCY_H
#define OBSERVER_RESIDENCY_H

#include "observer_base.h"

/* Keeps the code of all files with CLINUX_RESIDENT_CODE, and the C library's functions that it calls, resident
 * (clinux_keep_code_resident). Returns whether locking is allowed. Async-signal-safe: no. Threads: any. */
bool observer_keep_own_code_resident(void);

#endif
