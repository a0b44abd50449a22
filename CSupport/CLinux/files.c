#define _GNU_SOURCE
#include "clinux_files.h"

#include "clinux_descriptor.h"
#include "clinux_watchpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

bool clinux_keep_root(void) {
  int saved_errno = errno;
  bool is_kept = !clinux_calls_are_filtered() && unshare(CLONE_FS) == 0;
  errno = saved_errno;
  return is_kept;
}

uint64_t clinux_root(void) {
  int saved_errno = errno;
  struct stat root;
  bool is_known = stat("/", &root) == 0;
  errno = saved_errno;
  return is_known ? (uint64_t)root.st_dev << 40 ^ (uint64_t)root.st_ino : 0;
}

static int check(int opened, const struct stat *known) {
  struct stat found;
  if (fstat(opened, &found) != 0)
    return -errno;
  return S_ISREG(found.st_mode) && found.st_dev == known->st_dev && found.st_ino == known->st_ino ? 0 : -EINVAL;
}

int clinux_open_regular(const char *path) {
  int number = open(path, O_PATH | O_CLOEXEC);
  if (number < 0)
    return -errno;
  /* The service might close the descriptor while the file is opened for reading. */
  struct clinux_descriptor place = clinux_descriptor_keep(number);
  struct stat known;
  int error = fstat(place.number, &known) != 0 ? -errno : S_ISREG(known.st_mode) ? 0 : -EINVAL;
  if (error != 0) {
    clinux_descriptor_close(&place);
    return error;
  }
  /* Opens through the descriptor: the path might refer to another file by now. */
  char again[64];
  snprintf(again, sizeof again, "/proc/thread-self/fd/%d", place.number);
  int opened = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  /* Fails if /proc is not mounted, the process is not dumpable, or its main thread has exited. */
  if (opened < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
    opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  error = opened < 0 ? -errno : check(opened, &known);
  clinux_descriptor_close(&place);
  if (error == 0)
    return opened;
  if (opened >= 0)
    close(opened);
  return error;
}

static void descriptor_path(int descriptor, char path[32]) {
  snprintf(path, 32, "/proc/thread-self/fd/%d", descriptor);
}

int clinux_open_unnamed(const char *directory, unsigned mode) {
  int descriptor = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, (mode_t)mode);
  if (descriptor < 0)
    return -errno;
  /* Naming the file later requires /proc. */
  char path[32];
  descriptor_path(descriptor, path);
  if (faccessat(AT_FDCWD, path, F_OK, 0) == 0)
    return descriptor;
  int error = errno;
  close(descriptor);
  return -error;
}

int clinux_link_unnamed(int descriptor, const char *path) {
  char own[32];
  descriptor_path(descriptor, own);
  return linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}
