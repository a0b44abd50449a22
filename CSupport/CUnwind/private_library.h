/* Loading a shared library that nobody else in the process has. Internal to CUnwind. */
#ifndef PRIVATE_LIBRARY_H
#define PRIVATE_LIBRARY_H

/* Loads the library NAME once more, which SHARED is as the process shares it, so that nobody else has it; NULL where
 * that cannot be done.
 *
 * A library that the service uses as well has its locks in common with the service, RTLD_LOCAL or not: a thread of the
 * service that is held up in it would hold up whoever unwinds. The loader takes two files for two libraries. Where
 * there is no memfd_create(2), or /proc is not there or not for this process, a namespace of its own does the same
 * (dlmopen): it brings a C library along, which takes 0.9 MiB more, and debuggers do not look into it.
 * Async-signal-safe: no. Threads: any. */
void *cunwind_load_private(const char *name, void *shared);

#endif
