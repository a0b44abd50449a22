/* The library's file descriptors.
 *
 * Library threads that run no application code therefore have their own descriptor tables if the kernel supports that.
 * In the service's table each descriptor is stored with the identity of its file; it is not read, written or closed if
 * its number refers to another file. */
#ifndef CLINUX_DESCRIPTOR_H
#define CLINUX_DESCRIPTOR_H

#include "clinux_base.h"

struct clinux_descriptor {
  int number; /* -1: none */
  uint64_t device;
  uint64_t inode;
  uint64_t born_ns; /* inodes are reused; 0 if the file system does not report it */
  uint32_t table;   /* number of the descriptor table to which NUMBER belongs; 0: the service's */
};

#define CLINUX_NO_DESCRIPTOR ((struct clinux_descriptor){.number = -1})

/* Makes children of fork(2) close their copies of kept descriptors from now on. Async-signal-safe: no. Threads: any. */
void clinux_descriptor_start(void);

/* Returns the just opened descriptor NUMBER with the identity of its file, or CLINUX_NO_DESCRIPTOR if it is negative. A
 * standard stream's number is replaced by another one, and a child of fork(2) closes its copy. Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_descriptor_keep(int number);

/* Keeps the just opened descriptor NUMBER of the file at PATH, as clinux_descriptor_keep does. Returns
 * CLINUX_NO_DESCRIPTOR without any effect if NUMBER does not refer to the file at PATH: the service might have closed
 * it already. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_descriptor_keep_file(int number, const char *path);

/* Gives the calling thread its own descriptor table for the rest of its life, in which only the standard streams are
 * open and refer to /dev/null. Returns false without any effect if the kernel or a sandbox does not provide
 * close_range(2). Async-signal-safe: yes. Threads: those that use no descriptor of another thread and run no
 * application code. */
bool clinux_descriptor_take_own_table(void);

/* Returns the number of the calling thread's descriptor table, 0 for the service's. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS uint32_t clinux_descriptor_table(void);

/* Declares that the calling thread shares TABLE, its creator's table: the kernel gives a new thread the table of its
 * creator. The kernel closes the table when the last of its threads ends. Async-signal-safe: yes. Threads: a thread
 * that runs no application code, before it opens a file. */
void clinux_descriptor_share_table(uint32_t table);

/* Whether DESCRIPTOR still refers to the opened file. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_descriptor_is_ours(const struct clinux_descriptor *descriptor);

/* Reads the number and the identity of NUMBER, opened by any code, into *FOUND, without waiting for its file system.
 * Returns false if NUMBER is not open. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_descriptor_identify(int number, struct clinux_descriptor *found);

/* Whether NUMBER, opened by any code, refers to DESCRIPTOR's file. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_descriptor_is_same(const struct clinux_descriptor *descriptor, int number);

/* Replaces DESCRIPTOR by OPENED, which refers to any file, and closes the old descriptor if it still refers to its
 * file. Async-signal-safe: yes. Threads: as clinux_descriptor_close. */
CLINUX_NO_LOCKS void clinux_descriptor_replace(struct clinux_descriptor *descriptor, struct clinux_descriptor opened);

/* Closes DESCRIPTOR if it still refers to its file, and sets it to CLINUX_NO_DESCRIPTOR. Async-signal-safe: yes.
 * Threads: any, one at a time for each descriptor. */
CLINUX_NO_LOCKS void clinux_descriptor_close(struct clinux_descriptor *descriptor);

/* Closes DESCRIPTOR if it still refers to its file, and sets its number to -1. The identity of the file stays, so
 * clinux_descriptor_is_same recognizes the file when it is opened again. Returns false and leaves DESCRIPTOR open if
 * the identity cannot be read. Async-signal-safe: yes. Threads: as clinux_descriptor_close. */
CLINUX_NO_LOCKS bool clinux_descriptor_set_aside(struct clinux_descriptor *descriptor);

#endif
