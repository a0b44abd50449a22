#define _GNU_SOURCE
#include "observer_datagram.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

_Static_assert(sizeof(struct sockaddr_un) <= sizeof((struct observer_datagram *)0)->address,
               "an address has room");

int observer_datagram_open(struct observer_datagram *target, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  if ((name[0] != '/' && name[0] != '@') || name[1] == '\0')
    return EAFNOSUPPORT;
  if (length > sizeof address.sun_path || (length == sizeof address.sun_path && name[0] == '/'))
    return ENAMETOOLONG;
  memcpy(address.sun_path, name, length);
  /* The address of a path counts its terminating zero; an abstract name begins with a zero and has no end but its length
   * (unix(7)). */
  size_t bytes = offsetof(struct sockaddr_un, sun_path) + length + 1;
  if (name[0] == '@') {
    address.sun_path[0] = '\0';
    bytes--;
  }
  memcpy(target->address, &address, sizeof address);
  target->address_bytes = (uint32_t)bytes;
  target->descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return target->descriptor < 0 ? errno : 0;
}

void observer_datagram_close(struct observer_datagram *target) {
  if (target->descriptor >= 0)
    close(target->descriptor);
  target->descriptor = -1;
}

int observer_datagram_send(const struct observer_datagram *target, const char *text, size_t bytes) {
  int saved_errno = errno;
  ssize_t sent = sendto(target->descriptor, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                        (const struct sockaddr *)(const void *)target->address, target->address_bytes);
  int error = sent < 0 ? errno : 0;
  errno = saved_errno;
  return error;
}
