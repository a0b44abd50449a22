#ifndef JOIN_H
#define JOIN_H

#include "walk.h"

/* Size of this part of an unwinder, in bytes. Async-signal-safe: yes. Threads: any. */
size_t cunwind_kept_stacks_bytes(void);

#endif
