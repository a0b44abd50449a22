/* Loads a private copy of a shared library. Internal to CUnwind. */
#ifndef PRIVATE_LIBRARY_H
#define PRIVATE_LIBRARY_H

/* Loads a private copy of the library NAME. SHARED is the process's handle of it. Returns NULL if that is impossible.
 *
 * A shared library shares its locks with the service, with or without RTLD_LOCAL: a thread of the service that is
 * stopped inside it would block the unwinding thread. The loader treats two files as two libraries, so the copy is
 * loaded from a memory file. If memfd_create(2) or /proc is unavailable, the copy is loaded into a separate namespace
 * (dlmopen). That also loads another C library, which takes 0.9 MiB more, and debuggers do not see the namespace.
 * Async-signal-safe: no. Threads: any. */
void *cunwind_load_private(const char *name, void *shared);

#endif
