/* Joining stacks that end early with earlier ones (unwinder.h). Internal to CUnwind. */
#ifndef JOIN_H
#define JOIN_H

#include "walk.h"

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_kept_stacks_bytes(void);

#endif
