/* The environment of the process. */
#ifndef CLINUX_ENVIRONMENT_H
#define CLINUX_ENVIRONMENT_H

/* Returns the value of the environment variable NAME, or NULL if it is not set or the program has more privileges than
 * the user that started it: secure_getenv(3), which Swift's Glibc module lacks. The string belongs to the environment
 * and is valid until the environment changes. Async-signal-safe: no. Threads: any, while no thread changes the
 * environment. */
const char *clinux_environment(const char *name);

/* Returns the environment's entry INDEX, "NAME=value", or NULL behind the last one and in a program that has more
 * privileges than the user that started it. The string belongs to the environment and is valid until the environment
 * changes. Async-signal-safe: no. Threads: any, while no thread changes the environment. */
const char *clinux_environment_entry(int index);

#endif
