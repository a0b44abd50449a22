/* The environment of the process. */
#ifndef CLINUX_ENVIRONMENT_H
#define CLINUX_ENVIRONMENT_H

/* The value of the environment variable NAME, NULL when it is not set. NULL, too, in a program that has more privileges
 * than who started it: secure_getenv(3), which Swift's Glibc module does not have. Belongs to the environment; valid
 * until somebody changes that. Async-signal-safe: no. Threads: any, while nobody changes the environment. */
const char *clinux_environment(const char *name);

/* The environment's entry INDEX, "NAME=value", NULL behind the last one and in a program that has more privileges than
 * who started it. For a walk from 0 to the first NULL. Belongs to the environment; valid until somebody changes that.
 * Async-signal-safe: no. Threads: any, while nobody changes the environment. */
const char *clinux_environment_entry(int index);

#endif
