/* Keeping in memory the code that must work when nothing can be read from a disk. */
#ifndef OBSERVER_RESIDENCY_H
#define OBSERVER_RESIDENCY_H

#include "observer_base.h"

/* Keeps in memory the C code that runs on the monitor's and the escalation thread and in handlers, and the functions of
 * the C library that it calls (clinux_keep_code_resident). Returns whether the process may. Async-signal-safe: no.
 * Threads: any. */
bool observer_keep_own_code_resident(void);

#endif
