/* Files, as far as Swift's Glibc module lacks them. */
#ifndef CLINUX_FILES_H
#define CLINUX_FILES_H

#include "clinux_base.h"

/* Gives the calling thread its own root and working directory for the rest of its life: chroot(2) and chdir(2) of other
 * threads do not change where its paths lead. Threads that it creates share them. Returns false, and changes nothing,
 * where system calls are filtered: a filter may end the process for unshare(2).
 * Async-signal-safe: yes. Threads: those that run no application code. */
bool clinux_keep_root(void);

/* The identity of the calling thread's root directory, which chroot(2) changes; 0 where it cannot be read.
 * Async-signal-safe: yes. Threads: any. */
uint64_t clinux_root(void);

/* Opens the regular file at PATH for reading, following links. Its descriptor is closed on exec(3).
 *
 * What is there is looked at before it is opened (O_PATH): the opening alone rewinds a tape, arms a watchdog timer,
 * waits for the other end of a FIFO or takes a terminal.
 *
 * Returns the descriptor, -EINVAL for what is no regular file, or another error number below 0.
 * Async-signal-safe: no. Threads: any. */
int clinux_open_regular(const char *path);

/* Opens a new file without a name in DIRECTORY for writing, with the permissions MODE (O_TMPFILE). Whatever ends the
 * process, nothing is left of it unless clinux_link_unnamed has given it a name. Its descriptor is closed on exec(3).
 *
 * Returns the descriptor, or an error number below 0: also where the file system has no such files, or /proc is not
 * there. Async-signal-safe: no. Threads: any. */
int clinux_open_unnamed(const char *directory, unsigned mode);

/* Gives the file that clinux_open_unnamed has opened as DESCRIPTOR the name PATH, in the same file system.
 *
 * Returns 0, or an error number below 0: -EEXIST when something has that name.
 * Async-signal-safe: no. Threads: any. */
int clinux_link_unnamed(int descriptor, const char *path);

#endif
