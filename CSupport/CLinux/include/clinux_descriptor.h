/* The library's file descriptors.
 *
 * The service might close the library's descriptors. Each descriptor in the service's table is therefore stored with
 * the identity of its file, and used only while its number refers to that file. Library threads that run no application
 * code have their own descriptor tables if close_range(2) is available. */
#ifndef CLINUX_DESCRIPTOR_H
#define CLINUX_DESCRIPTOR_H

#include "clinux_base.h"

struct clinux_descriptor {
  int number; /* -1: none */
  uint64_t device;
  uint64_t inode;
  uint64_t born_ns; /* inodes are reused; 0: unknown */
  uint32_t table;   /* the descriptor table of NUMBER; 0: the service's */
};

#define CLINUX_NO_DESCRIPTOR ((struct clinux_descriptor){.number = -1})

/* Makes children of fork(2) close their copies of kept descriptors. Async-signal-safe: no. Threads: any. */
void clinux_descriptor_start(void);

/* Returns the just opened descriptor NUMBER with the identity of its file, or CLINUX_NO_DESCRIPTOR if NUMBER is
 * negative. The number of a standard stream is replaced by a higher one. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_descriptor_keep(int number);

/* As clinux_descriptor_keep, for the file at PATH. Returns CLINUX_NO_DESCRIPTOR without any effect if NUMBER refers to
 * another file, because the service might already have closed NUMBER. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_descriptor_keep_file(int number, const char *path);

/* Permanently gives the calling thread its own descriptor table, with only the standard streams, open on /dev/null.
 * Returns false without any effect if close_range(2) is not available. Async-signal-safe: yes. Threads: those that use
 * no descriptor of another thread and run no application code. */
bool clinux_descriptor_take_own_table(void);

/* Returns the number of the calling thread's descriptor table; 0: the service's. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS uint32_t clinux_descriptor_table(void);

/* Declares that the calling thread shares TABLE, its creator's table. The kernel closes a table when the last of its
 * threads ends. Async-signal-safe: yes. Threads: a thread that runs no application code, before it opens a file. */
void clinux_descriptor_share_table(uint32_t table);

/* Whether DESCRIPTOR still refers to the opened file. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_descriptor_is_ours(const struct clinux_descriptor *descriptor);

/* Sets *FOUND to NUMBER, opened by any code, and the identity of its file, without waiting for the file system. Returns
 * false if NUMBER is not open. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_descriptor_identify(int number, struct clinux_descriptor *found);

/* Whether NUMBER, opened by any code, refers to DESCRIPTOR's file. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_descriptor_is_same(const struct clinux_descriptor *descriptor, int number);

/* Closes DESCRIPTOR and sets it to OPENED. Async-signal-safe: yes. Threads: as clinux_descriptor_close. */
CLINUX_NO_LOCKS void clinux_descriptor_replace(struct clinux_descriptor *descriptor, struct clinux_descriptor opened);

/* Closes DESCRIPTOR and sets it to CLINUX_NO_DESCRIPTOR. Async-signal-safe: yes. Threads: any, one at a time for
 * each descriptor. */
CLINUX_NO_LOCKS void clinux_descriptor_close(struct clinux_descriptor *descriptor);

/* Closes DESCRIPTOR and sets its number to -1; clinux_descriptor_is_same still recognizes the file. Returns false and
 * leaves DESCRIPTOR open if the identity cannot be read. Async-signal-safe: yes. Threads: as
 * clinux_descriptor_close. */
CLINUX_NO_LOCKS bool clinux_descriptor_set_aside(struct clinux_descriptor *descriptor);

#endif
