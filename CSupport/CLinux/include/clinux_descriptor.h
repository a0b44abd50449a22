/* Descriptors that the library keeps open.
 *
 * The service may close them: closefrom(3) does. Its own files are then under the same numbers. So a descriptor is kept
 * with what it was opened for, and is neither read, written nor closed when the number stands for something else.
 * (Between that look and the call there is a gap of some hundred nanoseconds, in which the service would have to close
 * and open.) That goes for what is open for a moment, too: a service that closes everything in that moment has another
 * file under the number when it is to be closed. A child of fork(2) closes its copies at once. */
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

/* NUMBER, just opened, with what it stands for; CLINUX_NO_DESCRIPTOR when it is negative. Where it is a standard
 * stream's, which the service has closed, it is closed and another number kept: what the service writes there must not
 * come into a file of the library's. A child of fork(2) closes its copy. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_descriptor_keep(int number);

/* The same of NUMBER, just opened at PATH: CLINUX_NO_DESCRIPTOR, having done nothing, when it does not stand for what
 * is there any more. The service may have closed it before anybody has looked what it stands for.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_descriptor_keep_file(int number, const char *path);

/* Gives the calling thread a table of descriptors of its own for good, with nothing open: what the service closes and
 * opens is none of what the thread does. Its standard streams lead nowhere. Returns false, having done nothing, where
 * the kernel or a sandbox has no close_range(2). Async-signal-safe: yes. Threads: those that never use a descriptor of
 * another thread's, and run none of the application's code. */
bool clinux_descriptor_take_own_table(void);

/* Whether DESCRIPTOR still stands for what was opened. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_descriptor_is_ours(const struct clinux_descriptor *descriptor);

/* Whether NUMBER, whoever opened it, stands for the same file as DESCRIPTOR did. Async-signal-safe: yes. Threads: any.
 */
CLINUX_NO_LOCKS bool clinux_descriptor_is_same(const struct clinux_descriptor *descriptor, int number);

/* Makes DESCRIPTOR the one that is OPENED, for the same file or another one, and closes what it was, if it is ours
 * still. Async-signal-safe: yes. Threads: as clinux_descriptor_close. */
CLINUX_NO_LOCKS void clinux_descriptor_replace(struct clinux_descriptor *descriptor, struct clinux_descriptor opened);

/* Closes DESCRIPTOR, if it is ours still. It is CLINUX_NO_DESCRIPTOR then.
 * Async-signal-safe: yes. Threads: any, one at a time for the same descriptor. */
CLINUX_NO_LOCKS void clinux_descriptor_close(struct clinux_descriptor *descriptor);

#endif
