/* The descriptor or the path that the system call of a blocked thread is on: what is behind it, as the kernel tells it.
 *
 * The kernel is asked for no more than a name: a socket or a pipe can be locked by a thread that waits for memory in
 * the middle of a call on it, and whoever asks for its peer or its bytes waits for that. It is asked for by its number.
 * Whoever closes a descriptor that another thread waits on, and opens another file under that number, gets the other
 * one told.
 */
#ifndef OBSERVER_DESCRIPTOR_H
#define OBSERVER_DESCRIPTOR_H

#include "observer_base.h"

enum { OBSERVER_TARGET_BYTES = 112 };

struct observer_descriptor {
  int32_t number;                     /* -1: the call is on none that is known */
  uint32_t target_bytes;              /* 0: the kernel does not tell */
  bool is_cut;                        /* the target is longer; its beginning is missing */
  char target[OBSERVER_TARGET_BYTES]; /* what /proc has for it: a path, "socket:[4711]" */
};

/* The number of the descriptor that the system call CALL with ARGUMENTS is on; -1 if there is none. Of several that
 * poll(2) or select(2) wait for none is told. Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS int32_t observer_descriptor_number(int64_t call, const uint64_t arguments[6]);

/* Fills DESCRIPTOR, without a number, with the path that the system call CALL with ARGUMENTS was given; leaves it alone
 * where that has none. Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS void observer_path_read(int64_t call, const uint64_t arguments[6],
                                        struct observer_descriptor *descriptor);

/* Fills DESCRIPTOR with the target of NUMBER in the descriptor table of thread TID. Async-signal-safe: yes. Threads:
 * any that the kernel may hold up. */
CLINUX_NO_LOCKS void observer_descriptor_read(int32_t tid, int32_t number, struct observer_descriptor *descriptor);

#endif
