/* A file system in user space with one file, for programs that stop answering. Needs root. */
#ifndef SILENT_FILE_SYSTEM_H
#define SILENT_FILE_SYSTEM_H

/* Mounts at PLACE a file system that has the content of FILE under NAME, and answers for it until the device is closed. Nothing
 * is read ahead. Returns when it has been unmounted, or the negative of an errno value when it cannot be mounted. Calls
 * IS_MOUNTED once it is. */
int silent_file_system_serve(const char *file, const char *name, const char *place, void (*is_mounted)(void));

/* A page of PLACE, which is mapped, is written to. Waits for as long as its file system does. */
void store_into_frozen_file(volatile char *place);

#endif
