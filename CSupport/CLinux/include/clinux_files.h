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

#endif
