#ifndef CPROCESS_DATAGRAM_H
#define CPROCESS_DATAGRAM_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

struct cprocess_datagram {
  struct clinux_descriptor socket;
  uint32_t address_bytes;
  uint64_t address[16]; /* a struct sockaddr_un */
};

/* Opens TARGET for datagrams to the socket NAME: an absolute path, or `@` and an abstract name. Returns 0 or an
 * errno value: EAFNOSUPPORT for other names, ENAMETOOLONG. Async-signal-safe: no. Threads: any. */
int cprocess_datagram_open(struct cprocess_datagram *target, const char *name);

/* Async-signal-safe: yes. Threads: any, while no thread sends. */
void cprocess_datagram_close(struct cprocess_datagram *target);

/* Sends the BYTES bytes of TEXT without blocking. If the service has closed the socket, opens a new one. Returns 0,
 * EAGAIN if the receiver's queue is full, or another errno value. Async-signal-safe: yes. Threads: any, one at a
 * time. */
CLINUX_NO_LOCKS int cprocess_datagram_send(struct cprocess_datagram *target, const char *text, size_t bytes);

#endif
