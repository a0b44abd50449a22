/* Files, as far as Swift's Glibc module lacks them. */
#ifndef CLINUX_FILES_H
#define CLINUX_FILES_H

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
