/* Shared room for the copy of one deep stack, because they are rare. Others are truncated meanwhile. */
#ifndef DEEP_ROOM_H
#define DEEP_ROOM_H

#include "base/observer_base.h"

#include <stddef.h>

/* For each request and each sampler. */
enum { OBSERVER_USUAL_ROOM_BYTES = 128 << 10 };

/* Maps room for a stack of BYTES bytes, unless it is already that large. Without memory (RLIMIT_AS), deep stacks are
 * truncated. Async-signal-safe: no. Threads: any, one at a time. */
void observer_deep_room_map(size_t bytes);

/* Children of fork(2) do not inherit the room. Async-signal-safe: yes. Threads: the child's only one. */
void observer_deep_room_forget_parent(void);

/* Returns room for LIVE bytes: the *CAPACITY bytes at OWN if they suffice, otherwise the deep room if it is free. Sets
 * *CAPACITY to the bytes that fit, up to BYTES_MAX. observer_deep_room_give_back must follow. Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS uint8_t *observer_deep_room_or(uint8_t *own, size_t *capacity, size_t bytes_max, uint64_t live);

/* Releases ROOM, of which BYTES bytes were used. Returns whether it is the deep room. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS bool observer_deep_room_give_back(const uint8_t *room, size_t bytes);

/* Returns the room's used pages to the kernel, unless it is in use. Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS void observer_deep_room_wipe(void);

#endif
