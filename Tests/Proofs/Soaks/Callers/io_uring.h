/* Waits for a completion of a ring (io_uring(7)). */
#ifndef IO_URING_H
#define IO_URING_H

#include "callers.h"

/* Whether this process can create a ring. */
bool io_uring_is_there(void);

/* The functions of a kind of call (callers.h). */
bool open_ring(struct caller *caller);
enum outcome call_io_uring_enter(struct caller *caller);
void close_ring(struct caller *caller);

#endif
