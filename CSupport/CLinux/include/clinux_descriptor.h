/* Descriptors that the library keeps open.
 *
 * The service may close them: closefrom(3) does. Its own files are then under the same numbers. So a descriptor is kept
 * with what it was opened for, and is neither read, written nor closed when the number stands for something else.
 * (Between that look and the call there is a gap of some hundred nanoseconds, in which the service would have to close
 * and open.) A child of fork(2) closes its copies at once. */
#ifndef CLINUX_DESCRIPTOR_H
#define CLINUX_DESCRIPTOR_H

#include "clinux_base.h"

struct clinux_descriptor {
  int number; /* -1: none */
  uint64_t device;
  uint64_t inode;
  uint64_t born_ns; /* inodes are used again; 0 where the file system does not tell */
};

#define CLINUX_NO_DESCRIPTOR ((struct clinux_descriptor){.number = -1})

/* Has children of fork(2) close their copies of what is kept, from now on. Async-signal-safe: no. Threads: any. */
void clinux_descriptor_start(void);

/* NUMBER, just opened, with what it stands for; CLINUX_NO_DESCRIPTOR when it is negative. A child of fork(2) closes
 * its copy. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_descriptor_keep(int number);

/* Whether DESCRIPTOR still stands for what was opened. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_descriptor_is_ours(const struct clinux_descriptor *descriptor);

/* Whether NUMBER, whoever opened it, stands for the same file as DESCRIPTOR did. Async-signal-safe: yes. Threads: any.
 */
CLINUX_NO_LOCKS bool clinux_descriptor_is_same(const struct clinux_descriptor *descriptor, int number);

/* Closes DESCRIPTOR, if it is ours still. It is CLINUX_NO_DESCRIPTOR then.
 * Async-signal-safe: yes. Threads: any, one at a time for the same descriptor. */
CLINUX_NO_LOCKS void clinux_descriptor_close(struct clinux_descriptor *descriptor);

#endif
