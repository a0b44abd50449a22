#define _GNU_SOURCE
#include "cause_work.h"
#include "processes.h"
#include "threads.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Returns a socket that listens on a loopback port, and stores its address in *ADDRESS. */
static int listen_on_loopback(struct sockaddr_in *address, int backlog) {
  socklen_t length = sizeof *address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (bind(listener, (struct sockaddr *)address, sizeof *address) != 0 || listen(listener, backlog) != 0 ||
      getsockname(listener, (struct sockaddr *)address, &length) != 0) {
    close(listener);
    return -1;
  }
  return listener;
}

/* Stores both ends of a connection in ENDS. Returns 0, or -1 on failure. */
static int connect_pair(int ends[2]) {
  struct sockaddr_in address;
  int listener = listen_on_loopback(&address, 1);
  if (listener < 0)
    return -1;
  ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ends[1] = -1;
  if (connect(ends[0], (struct sockaddr *)&address, sizeof address) == 0)
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  close(listener);
  return ends[1] < 0 ? -1 : 0;
}

static int warehouse[2];

static void *answer(void *argument) {
  cause_begun();
  usleep(cause_argument(argument) * 1000);
  cause_ignore(write(warehouse[1], "12 boxes\n", 9));
  return NULL;
}

int begin_warehouse(unsigned milliseconds) {
  if (connect_pair(warehouse) != 0)
    return -1;
  cause_thread("warehouse", answer, milliseconds);
  return warehouse[0];
}

NOT_INLINED void ask_warehouse(int descriptor) {
  char line[100];
  ssize_t count = recv(descriptor, line, sizeof line, 0);
  cause_sink += (uint64_t)count;
}

NOT_INLINED void poll_warehouse(int descriptor) {
  struct pollfd awaited = {.fd = descriptor, .events = POLLIN};
  int count = poll(&awaited, 1, 20000);
  cause_sink += (uint64_t)count;
}

int begin_busy_bank(int *listener) {
  struct sockaddr_in address;
  *listener = listen_on_loopback(&address, 0);
  if (*listener < 0)
    return -1;
  /* More connections than the backlog holds. */
  for (int i = 0; i < 3; i++) {
    int filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(filler, (struct sockaddr *)&address, sizeof address);
  }
  usleep(50000);
  return ntohs(address.sin_port);
}

NOT_INLINED void connect_to_bank(int port, unsigned milliseconds) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons((uint16_t)port)};
  struct timeval patience = {milliseconds / 1000, milliseconds % 1000 * 1000};
  int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  /* SO_SNDTIMEO is also the timeout of connect(2). */
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(connection, (struct sockaddr *)&address, sizeof address) != 0)
    cause_sink += 1;
  close(connection);
}

static int gallery[2];

static void *read_late(void *argument) {
  static char bytes[1 << 16];
  cause_begun();
  usleep(cause_argument(argument) * 1000);
  while (read(gallery[1], bytes, sizeof bytes) > 0)
    ;
  return NULL;
}

int begin_slow_reader(unsigned milliseconds) {
  if (connect_pair(gallery) != 0)
    return -1;
  cause_thread("gallery", read_late, milliseconds);
  return gallery[0];
}

NOT_INLINED void upload_images(int descriptor) {
  /* Exceeds the socket buffers. */
  static char images[1 << 24];
  ssize_t count = send(descriptor, images, sizeof images, 0);
  cause_sink += (uint64_t)count;
}
