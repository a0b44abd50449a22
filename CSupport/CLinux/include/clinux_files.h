#ifndef CLINUX_FILES_H
#define CLINUX_FILES_H

#include "clinux_base.h"

/* Makes the calling thread's root and working directory independent of chroot(2) and chdir(2) in other threads. Threads
 * that the calling thread creates still share its directories. Returns false without any effect if system calls are
 * filtered, because a filter might end the process for unshare(2). Async-signal-safe: yes. Threads: those that run no
 * application code. */
bool clinux_keep_root(void);

/* Returns the identity of the calling thread's root directory; 0 if it cannot be read. Async-signal-safe: yes.
 * Threads: any. */
uint64_t clinux_root(void);

/* Opens the regular file at PATH for reading, following links. Returns the descriptor, or a negative error number. For
 * other kinds of files, returns -EINVAL without opening them, because opening rewinds a tape and waits for the other
 * end of a FIFO. Async-signal-safe: no. Threads: any. */
int clinux_open_regular(const char *path);

/* Opens a new unnamed file in DIRECTORY for writing (O_TMPFILE), with the permissions MODE. Returns the descriptor,
 * or a negative error number, also if the file system does not support unnamed files or /proc is not mounted.
 * Async-signal-safe: no. Threads: any. */
int clinux_open_unnamed(const char *directory, unsigned mode);

/* Names DESCRIPTOR, opened by clinux_open_unnamed, as PATH in the same file system. Returns 0 or a negative error
 * number: -EEXIST if the name exists. Async-signal-safe: no. Threads: any. */
int clinux_link_unnamed(int descriptor, const char *path);

#endif
