/* Descriptors of the library.
 *
 * The service may close them, for example with closefrom(3), and its own files then get the same numbers. Threads of
 * the library that run no application code therefore have their own descriptor tables where the kernel allows it.
 * In the service's table each descriptor is kept with the identity of its file, and is not read, written or closed when
 * the number stands for another file. (The check and the call are some hundred nanoseconds apart; a service that closes
 * and opens files in between is still harmed.) A child of fork(2) closes its copies at once. */
#ifndef CLINUX_DESCRIPTOR_H
#define CLINUX_DESCRIPTOR_H

#include "clinux_base.h"

struct clinux_descriptor {
  int number; /* -1: none */
  uint64_t device;
  uint64_t inode;
  uint64_t born_ns; /* inodes are used again; 0 where the file system does not tell */
  uint32_t table;   /* the descriptor table in which the number is valid; 0: the service's */
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

/* Gives the calling thread its own descriptor table for the rest of its life, with nothing open but standard streams
 * that lead to /dev/null. The descriptors of this table do not count against the service's limit, and the kernel closes
 * them when the thread ends. Returns false, and changes nothing, where the kernel or a sandbox has no close_range(2).
 * Async-signal-safe: yes. Threads: those that use no descriptor of another thread and run no application code. */
bool clinux_descriptor_take_own_table(void);

/* The number of the calling thread's descriptor table, 0 for the service's. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint32_t clinux_descriptor_table(void);

/* Declares that the calling thread shares TABLE, the table of the thread that created it: the kernel gives a new thread
 * the table of its creator. The kernel closes the table when the last of them ends. Async-signal-safe: yes. Threads: a
 * thread that runs no application code, before it opens a file. */
void clinux_descriptor_share_table(uint32_t table);

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

/* Closes DESCRIPTOR, if it is ours still, and keeps the identity of its file, so that clinux_descriptor_is_same
 * recognizes the file when it is opened again. The number is -1 then. Returns false, and leaves DESCRIPTOR open, when
 * the identity cannot be read. Async-signal-safe: yes. Threads: as clinux_descriptor_close. */
CLINUX_NO_LOCKS bool clinux_descriptor_set_aside(struct clinux_descriptor *descriptor);

#endif
