/* The descriptor or path of a blocked thread's system call, and the kernel's name for the file. Reads only the link in
 * /proc, because system calls on a socket or pipe could wait for a lock whose owner waits for memory. */
#ifndef OBSERVER_DESCRIPTOR_H
#define OBSERVER_DESCRIPTOR_H

#include "base/observer_base.h"

enum { OBSERVER_TARGET_BYTES = 112 };

struct observer_descriptor {
  int32_t number;                     /* -1: unknown */
  uint32_t target_bytes;              /* 0: not available */
  bool is_cut;                        /* the beginning is missing */
  char target[OBSERVER_TARGET_BYTES]; /* a path, or "socket:[4711]" */
};

/* Returns the descriptor of CALL; -1: none, or several (poll(2), select(2)). Async-signal-safe: yes. Threads: any that
 * can read memory. */
CLINUX_NO_LOCKS int32_t observer_descriptor_number(int64_t call, const uint64_t arguments[6]);

/* Sets DESCRIPTOR, without a number, to the path argument of CALL, if any. Async-signal-safe: yes. Threads: any that
 * can read memory. */
CLINUX_NO_LOCKS void observer_path_read(int64_t call, const uint64_t arguments[6],
                                        struct observer_descriptor *descriptor);

/* Sets DESCRIPTOR to the target of NUMBER in thread TID's table. Async-signal-safe: yes. Threads: any that the kernel
 * is allowed to block. */
CLINUX_NO_LOCKS void observer_descriptor_read(int32_t tid, int32_t number, struct observer_descriptor *descriptor);

#endif
