/* Room for the copy of one stack that is deeper than the room that each request and each sampler has for itself: deep
 * stacks are rare, and room for many of them would be taken from the service. Who meets a deep stack while the room is
 * taken copies what fits into its own. Internal to the observer.
 */
#ifndef DEEP_ROOM_H
#define DEEP_ROOM_H

#include "observer_base.h"

#include <stddef.h>

/* The room that everybody has for itself. */
enum { OBSERVER_USUAL_ROOM_BYTES = 128 << 10 };

/* Maps room for a stack of BYTES, unless there is as much already. Where there is no memory for it (RLIMIT_AS), deep
 * stacks are cut. Async-signal-safe: no. Threads: any, one at a time. */
void observer_deep_room_map(size_t bytes);

/* Says that there is none any more: children of fork(2) do not have it.
 * Async-signal-safe: yes. Threads: the child's only one. */
void observer_deep_room_forget_parent(void);

/* Where LIVE bytes are to be copied to by who has the *CAPACITY bytes at OWN and may copy BYTES_MAX: there, or, when
 * that is too little, to the deep room if nobody has it. *CAPACITY becomes how much fits. observer_deep_room_give_back
 * must follow. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint8_t *observer_deep_room_or(uint8_t *own, size_t *capacity, size_t bytes_max, uint64_t live);

/* Gives the room back, BYTES of which hold what was copied, if ROOM is that; returns whether it is.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_deep_room_give_back(const uint8_t *room, size_t bytes);

/* Gives what the room holds back to the kernel, unless somebody has it.
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS void observer_deep_room_wipe(void);

#endif
