#pragma once

/* What Swift's Glibc module lacks of Linux, for files and the environment. Nothing here is for signal handlers. */

/* Opens the regular file at PATH for reading, following links. Its descriptor is closed on exec(3).
 *
 * What is there is looked at before it is opened (O_PATH): the opening alone rewinds a tape, arms a watchdog timer,
 * waits for the other end of a FIFO or takes a terminal.
 *
 * Returns the descriptor, -EINVAL for what is no regular file, or another error number below 0. Any thread. */
int culprit_open_regular(const char *path);

/* The value of the environment variable NAME; NULL when there is none, or the program has more privileges than whoever
 * started it (secure_getenv(3)). Belongs to the environment. Any thread, while nobody changes the environment. */
const char *culprit_environment(const char *name);
