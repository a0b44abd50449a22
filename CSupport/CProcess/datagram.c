#define _GNU_SOURCE
#include "cprocess_datagram.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
CLINUX_RESIDENT_CODE

_Static_assert(sizeof(struct sockaddr_un) <= sizeof((struct cprocess_datagram *)0)->address, "an address fits");

static int open_socket(struct cprocess_datagram *target) {
  int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0)
    return errno;
  target->socket = clinux_descriptor_keep(descriptor);
  return 0;
}

int cprocess_datagram_open(struct cprocess_datagram *target, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  if ((name[0] != '/' && name[0] != '@') || name[1] == '\0')
    return EAFNOSUPPORT;
  if (length > sizeof address.sun_path || (length == sizeof address.sun_path && name[0] == '/'))
    return ENAMETOOLONG;
  memcpy(address.sun_path, name, length);
  /* A path's length includes its terminating zero; an abstract name begins with a zero and has none at its end
   * (unix(7)). */
  size_t bytes = offsetof(struct sockaddr_un, sun_path) + length + 1;
  if (name[0] == '@') {
    address.sun_path[0] = '\0';
    bytes--;
  }
  memcpy(target->address, &address, sizeof address);
  target->address_bytes = (uint32_t)bytes;
  return open_socket(target);
}

void cprocess_datagram_close(struct cprocess_datagram *target) { clinux_descriptor_close(&target->socket); }

int cprocess_datagram_send(struct cprocess_datagram *target, const char *text, size_t bytes) {
  int saved_errno = errno;
  int error = 0;
  if (!clinux_descriptor_is_ours(&target->socket)) {
    clinux_descriptor_close(&target->socket);
    error = open_socket(target);
  }
  if (error == 0 && sendto(target->socket.number, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                           (const struct sockaddr *)(const void *)target->address, target->address_bytes) < 0)
    error = errno;
  errno = saved_errno;
  return error;
}
