#define _GNU_SOURCE
#include "kernel_waits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_NODE = 2, REQUEST_BYTES = 1 << 17 };

static int device, source;
static off_t source_bytes;

static void reply(uint64_t unique, int error, const void *content, size_t bytes) {
  static uint8_t message[sizeof(struct fuse_out_header) + REQUEST_BYTES];
  struct fuse_out_header head = {.len = (uint32_t)(sizeof head + bytes), .error = -error, .unique = unique};
  memcpy(message, &head, sizeof head);
  if (bytes > 0)
    memcpy(message + sizeof head, content, bytes);
  if (write(device, message, head.len) < 0 && errno != ENOENT)
    perror("silent file system: reply");
}

static struct fuse_attr attributes(uint64_t node) {
  struct fuse_attr found = {.ino = node, .nlink = 1, .blksize = 4096};
  found.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0755;
  found.size = node == FUSE_ROOT_ID ? 0 : (uint64_t)source_bytes;
  found.blocks = found.size / 512 + 1;
  return found;
}

static void answer(const struct fuse_in_header *head, const uint8_t *content, const char *name) {
  switch (head->opcode) {
  case FUSE_INIT: {
    const struct fuse_init_in *in = (const void *)content;
    /* No read-ahead: only requested pages are in memory. */
    struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                .minor = FUSE_KERNEL_MINOR_VERSION,
                                .max_readahead = 0,
                                .max_write = 4096,
                                .max_background = 8};
    if (in->minor < out.minor)
      out.minor = in->minor;
    reply(head->unique, 0, &out, sizeof out);
    return;
  }
  case FUSE_LOOKUP: {
    if (strcmp((const char *)content, name) != 0) {
      reply(head->unique, ENOENT, NULL, 0);
      return;
    }
    struct fuse_entry_out out = {
        .nodeid = FILE_NODE, .entry_valid = 3600, .attr_valid = 0, .attr = attributes(FILE_NODE)};
    reply(head->unique, 0, &out, sizeof out);
    return;
  }
  case FUSE_GETATTR: {
    struct fuse_attr_out out = {.attr_valid = 0, .attr = attributes(head->nodeid)};
    reply(head->unique, 0, &out, sizeof out);
    return;
  }
  case FUSE_OPEN:
  case FUSE_OPENDIR: {
    struct fuse_open_out out = {.open_flags = FOPEN_KEEP_CACHE};
    reply(head->unique, 0, &out, sizeof out);
    return;
  }
  case FUSE_READ: {
    static uint8_t bytes[REQUEST_BYTES];
    const struct fuse_read_in *in = (const void *)content;
    ssize_t count = pread(source, bytes, in->size < sizeof bytes ? in->size : sizeof bytes, (off_t)in->offset);
    reply(head->unique, count < 0 ? errno : 0, bytes, count < 0 ? 0 : (size_t)count);
    return;
  }
  case FUSE_STATFS: {
    struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255}};
    reply(head->unique, 0, &out, sizeof out);
    return;
  }
  case FUSE_FORGET:
  case FUSE_BATCH_FORGET:
  case FUSE_INTERRUPT:
    return;
  case FUSE_RELEASE:
  case FUSE_RELEASEDIR:
  case FUSE_FLUSH:
  case FUSE_ACCESS:
    reply(head->unique, 0, NULL, 0);
    return;
  default:
    reply(head->unique, ENOSYS, NULL, 0);
  }
}

int silent_file_system_serve(const char *file, const char *name, const char *place, void (*is_mounted)(void)) {
  static _Alignas(8) uint8_t request[REQUEST_BYTES + 4096];
  char options[96];
  struct stat found;
  source = open(file, O_RDONLY | O_CLOEXEC);
  if (source < 0 || fstat(source, &found) != 0)
    return -errno;
  source_bytes = found.st_size;
  device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0)
    return -errno;
  snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
  if (mount("silent", place, "fuse.silent", MS_NOSUID | MS_NODEV, options) != 0)
    return -errno;
  is_mounted();
  for (;;) {
    ssize_t count = read(device, request, sizeof request);
    if (count < 0 && (errno == EINTR || errno == ENOENT))
      continue;
    if (count < (ssize_t)sizeof(struct fuse_in_header))
      return 0;
    answer((const void *)request, request + sizeof(struct fuse_in_header), name);
  }
}
