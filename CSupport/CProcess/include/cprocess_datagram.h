/* Datagrams to a Unix socket, without waiting: the transport of sd_notify(3). */
#ifndef CPROCESS_DATAGRAM_H
#define CPROCESS_DATAGRAM_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

/* Where datagrams go. */
struct cprocess_datagram {
  struct clinux_descriptor socket;
  uint32_t address_bytes;
  uint64_t address[16]; /* a struct sockaddr_un */
};

/* Prepares TARGET for datagrams to the socket called NAME: an absolute path, or `@` and a name in the abstract
 * namespace. Returns 0, or an errno value: EAFNOSUPPORT for any other kind of name, ENAMETOOLONG for one that is too
 * long. Async-signal-safe: no. Threads: any. */
int cprocess_datagram_open(struct cprocess_datagram *target, const char *name);

/* Frees what cprocess_datagram_open took. Async-signal-safe: yes. Threads: any, when nobody sends. */
void cprocess_datagram_close(struct cprocess_datagram *target);

/* Sends the BYTES bytes of TEXT to TARGET, through another socket where the service has closed that of before. Never
 * waits: returns EAGAIN when the receiver's queue is full; 0 when it was sent; otherwise another errno value.
 * Async-signal-safe: yes. Threads: any, one at a time. */
CLINUX_NO_LOCKS int cprocess_datagram_send(struct cprocess_datagram *target, const char *text, size_t bytes);

#endif
