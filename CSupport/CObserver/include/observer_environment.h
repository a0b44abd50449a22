/* The environment of the process. */
#ifndef OBSERVER_ENVIRONMENT_H
#define OBSERVER_ENVIRONMENT_H

/* The value of the environment variable NAME, NULL when it is not set. NULL, too, in a program that has more privileges than
 * who started it: secure_getenv(3), which Swift's Glibc module does not have. Belongs to the environment; valid until
 * somebody changes that.
 * Async-signal-safe: no. Threads: any, while nobody changes the environment. */
const char *observer_environment(const char *name);

#endif
