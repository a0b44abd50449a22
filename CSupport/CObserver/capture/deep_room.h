/* One shared buffer for copies of deep stacks, which are rare. While it is in use, other deep stacks are truncated. */
#ifndef DEEP_ROOM_H
#define DEEP_ROOM_H

#include "base/observer_base.h"

#include <stddef.h>

/* Size of the usual buffer of each request and each sampler. */
enum { OBSERVER_USUAL_ROOM_BYTES = 128 << 10 };

/* Maps the deep buffer with BYTES bytes, unless it is already that large. If there is no memory (RLIMIT_AS), deep
 * stacks are truncated. Async-signal-safe: no. Threads: any, one at a time. */
void observer_deep_room_map(size_t bytes);

/* Forgets the deep buffer, which children of fork(2) do not inherit. Async-signal-safe: yes. Threads: the child's only
 * one. */
void observer_deep_room_forget_parent(void);

/* Returns the deep buffer if OWN, of *CAPACITY bytes, is too small for LIVE bytes and the deep buffer is free,
 * otherwise OWN. Sets *CAPACITY to the buffer's size, up to BYTES_MAX. observer_deep_room_give_back must follow.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint8_t *observer_deep_room_or(uint8_t *own, size_t *capacity, size_t bytes_max, uint64_t live);

/* Releases ROOM, of which BYTES bytes were used. Returns whether ROOM is the deep buffer. Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS bool observer_deep_room_give_back(const uint8_t *room, size_t bytes);

/* Returns the deep buffer's pages to the kernel, unless the buffer is in use. Async-signal-safe: yes. Threads: a
 * sampler. */
CLINUX_NO_LOCKS void observer_deep_room_wipe(void);

#endif
