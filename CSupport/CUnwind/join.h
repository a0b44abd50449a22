#ifndef JOIN_H
#define JOIN_H

#include "walk.h"

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_kept_stacks_bytes(void);

#endif
