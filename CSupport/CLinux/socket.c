#define _GNU_SOURCE
#include "clinux_socket.h"

#include "clinux_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static int fail(int descriptor, int error) {
  close(descriptor);
  return -error;
}

int clinux_socket_listen(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path)
    return -ENAMETOOLONG;
  strcpy(address.sun_path, path);
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0)
    return -errno;
  /* The file gets the socket's mode, so it is never accessible to other users. */
  if (fchmod(descriptor, 0600) != 0 || bind(descriptor, (const struct sockaddr *)&address, sizeof address) != 0 ||
      listen(descriptor, BACKLOG) != 0)
    return fail(descriptor, errno);
  return descriptor;
}

int clinux_socket_accept(int listener) {
  int descriptor;
  do
    descriptor = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  while (descriptor < 0 && (errno == EINTR || errno == ECONNABORTED));
  return descriptor < 0 ? -errno : descriptor;
}

void clinux_socket_end(int listener) { shutdown(listener, SHUT_RDWR); }

int clinux_socket_connect(const char *path) {
  char directory_path[PATH_MAX];
  const char *name = strrchr(path, '/');
  if (name == NULL || (size_t)(name - path) >= sizeof directory_path)
    return -EINVAL;
  memcpy(directory_path, path, (size_t)(name - path));
  directory_path[name - path] = '\0';
  int directory = open(name == path ? "/" : directory_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return -errno;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d%s", directory, name);
  if (length < 0 || (size_t)length >= sizeof address.sun_path)
    return fail(directory, ENAMETOOLONG);
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0)
    return fail(directory, errno);
  int error = connect(descriptor, (const struct sockaddr *)&address, sizeof address) != 0 ? errno : 0;
  close(directory);
  return error != 0 ? fail(descriptor, error) : descriptor;
}

bool clinux_socket_peer(int socket, int32_t *process, uint32_t *user) {
  struct ucred peer;
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    return false;
  *process = peer.pid;
  *user = peer.uid;
  return true;
}

static int await(int socket, short events, uint64_t deadline_ns) {
  while (true) {
    uint64_t now = clinux_clock_ns();
    if (now >= deadline_ns)
      return -ETIMEDOUT;
    uint64_t left_ms = (deadline_ns - now) / 1000000 + 1;
    struct pollfd awaited = {.fd = socket, .events = events};
    int count = poll(&awaited, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
    if (count > 0)
      return 0;
    if (count < 0 && errno != EINTR)
      return -errno;
  }
}

int64_t clinux_socket_receive(int socket, void *buffer, size_t capacity, uint64_t deadline_ns) {
  while (true) {
    ssize_t count = recv(socket, buffer, capacity, MSG_DONTWAIT);
    if (count >= 0)
      return count;
    int error = errno == EAGAIN ? await(socket, POLLIN, deadline_ns) : errno == EINTR ? 0 : -errno;
    if (error != 0)
      return error;
  }
}

int clinux_socket_send(int socket, const void *bytes, size_t length, uint64_t deadline_ns) {
  size_t sent = 0;
  while (sent < length) {
    if (clinux_clock_ns() >= deadline_ns)
      return -ETIMEDOUT;
    ssize_t count = send(socket, (const char *)bytes + sent, length - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    int error = count >= 0 ? 0 : errno == EAGAIN ? await(socket, POLLOUT, deadline_ns) : errno == EINTR ? 0 : -errno;
    if (error != 0)
      return error;
    if (count > 0)
      sent += (size_t)count;
  }
  return 0;
}
