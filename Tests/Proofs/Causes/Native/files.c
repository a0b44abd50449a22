#define _GNU_SOURCE
#include "cause_work.h"
#include "processes.h"
#include "threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static char block[1 << 16];

static int create(const char *directory, const char *name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
}

NOT_INLINED void save_ledger(const char *directory, uint64_t end) {
  int file = create(directory, "ledger", 0);
  while (cause_now() < end) {
    cause_ignore(pwrite(file, block, sizeof block, 0));
    if (fsync(file) == 0)
      cause_sink += 1;
  }
  close(file);
}

NOT_INLINED void append_to_ledger(const char *directory, uint64_t end) {
  int file = create(directory, "appended", O_DSYNC);
  while (cause_now() < end)
    cause_sink += (uint64_t)pwrite(file, block, 4096, 0);
  close(file);
}

NOT_INLINED void scan_archive(const char *path, uint64_t end) {
  char piece[128];
  off_t place = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  while (cause_now() < end) {
    for (int i = 0; i < 500; i++) {
      place = pread(file, piece, sizeof piece, place) > 0 ? place + (off_t)sizeof piece : 0;
      cause_sink += (uint64_t)piece[0];
    }
  }
  close(file);
}

NOT_INLINED void list_spool_directory(const char *directory, uint64_t end) {
  struct stat found;
  while (cause_now() < end) {
    DIR *entries = opendir(directory);
    struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
      if (fstatat(dirfd(entries), entry->d_name, &found, 0) == 0)
        cause_sink += (uint64_t)found.st_size;
    }
    closedir(entries);
  }
}

int cause_fill_file(const char *path, uint64_t bytes) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), error = 0;
  if (file < 0)
    return errno;
  memset(block, 'x', sizeof block);
  for (uint64_t written = 0; written < bytes && error == 0; written += sizeof block)
    error = write(file, block, sizeof block) == (ssize_t)sizeof block ? 0 : errno;
  close(file);
  return error;
}

void cause_read_file(const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  while (read(file, block, sizeof block) > 0)
    ;
  close(file);
}

uint64_t cause_forget_file(const char *path) {
  struct stat found = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  fstat(file, &found);
  fsync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
  return (uint64_t)major(found.st_dev) << 32 | minor(found.st_dev);
}

int cause_make_files(const char *directory, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    char name[32];
    snprintf(name, sizeof name, "order-%u.json", i);
    int file = create(directory, name, 0);
    if (file < 0)
      return errno;
    cause_ignore(write(file, "{\"id\": 7, \"goods\": [1, 2, 3]}\n", 30));
    close(file);
  }
  return 0;
}

/* Two causes. */

NOT_INLINED void reconcile_books(const char *directory, uint64_t end) {
  int file = create(directory, "books", 0);
  uint64_t value = 1, now;
  while ((now = cause_now()) < end) {
    /* Waits for the disk, then computes more than twice as long. */
    for (int i = 0; i < 5; i++) {
      cause_ignore(pwrite(file, block, 4096, 0));
      fsync(file);
    }
    uint64_t enough = cause_now();
    enough += (enough - now) * 7 / 3;
    while (cause_now() < enough && cause_now() < end) {
      for (int i = 0; i < 2000; i++)
        value = value * 6364136223846793005u + 1;
    }
    cause_sink += value;
  }
  close(file);
}
