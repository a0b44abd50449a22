#ifndef CLINUX_FILES_H
#define CLINUX_FILES_H

#include "clinux_base.h"

/* Gives the calling thread its own root and working directory for the rest of its life, independent of chroot(2) and
 * chdir(2) in other threads. Threads that it creates share them. Returns false without any effect if system calls are
 * filtered, because a filter might end the process for unshare(2). Async-signal-safe: yes. Threads: those that run no
 * application code. */
bool clinux_keep_root(void);

/* Returns the identity of the calling thread's root directory, which chroot(2) changes; 0 if it cannot be read.
 * Async-signal-safe: yes. Threads: any. */
uint64_t clinux_root(void);

/* Opens the regular file at PATH for reading, following links.
 *
 * The file type is checked before opening (O_PATH), because opening alone rewinds a tape, arms a watchdog timer, waits
 * for the other end of a FIFO or acquires a terminal.
 *
 * Returns the descriptor, -EINVAL if the file is not a regular file, or another negative error number.
 * Async-signal-safe: no. Threads: any. */
int clinux_open_regular(const char *path);

/* Opens a new unnamed file in DIRECTORY for writing, with the permissions MODE (O_TMPFILE). The file disappears when
 * the process ends in any way, unless clinux_link_unnamed has named it.
 *
 * Returns the descriptor, or a negative error number, also if the file system does not support unnamed files or /proc
 * is not mounted. Async-signal-safe: no. Threads: any. */
int clinux_open_unnamed(const char *directory, unsigned mode);

/* Names the unnamed file DESCRIPTOR, opened by clinux_open_unnamed, as PATH in the same file system.
 *
 * Returns 0 or a negative error number: -EEXIST if the name exists. Async-signal-safe: no. Threads: any. */
int clinux_link_unnamed(int descriptor, const char *path);

#endif
