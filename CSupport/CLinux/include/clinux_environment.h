#ifndef CLINUX_ENVIRONMENT_H
#define CLINUX_ENVIRONMENT_H

/* secure_getenv(3): returns the value of the variable NAME, valid until the environment changes, or NULL if it is
 * not set or the program has more privileges than its user. Async-signal-safe: no. Threads: any, while no thread
 * changes the environment. */
const char *clinux_environment(const char *name);

/* Returns the environment's entry INDEX, "NAME=value", valid until the environment changes, or NULL after the last
 * entry or if the program has more privileges than its user. Async-signal-safe: no. Threads: any, while no thread
 * changes the environment. */
const char *clinux_environment_entry(int index);

#endif
