/* Datagrams to a Unix socket, without waiting: the transport of sd_notify(3). */
#ifndef OBSERVER_DATAGRAM_H
#define OBSERVER_DATAGRAM_H

#include "clinux_descriptor.h"
#include "observer_base.h"

/* Where datagrams go. */
struct observer_datagram {
  struct clinux_descriptor socket;
  uint32_t address_bytes;
  uint64_t address[16]; /* a struct sockaddr_un */
};

/* Prepares TARGET for datagrams to the socket called NAME: an absolute path, or `@` and a name in the abstract
 * namespace. Returns 0, or an errno value: EAFNOSUPPORT for any other kind of name, ENAMETOOLONG for one that is too
 * long. Async-signal-safe: no. Threads: any. */
int observer_datagram_open(struct observer_datagram *target, const char *name);

/* Frees what observer_datagram_open took. Async-signal-safe: yes. Threads: any, when nobody sends. */
void observer_datagram_close(struct observer_datagram *target);

/* Sends the BYTES bytes of TEXT to TARGET, through another socket where the service has closed that of before. Never
 * waits: returns EAGAIN when the receiver's queue is full; 0 when it was sent; otherwise another errno value.
 * Async-signal-safe: yes. Threads: any, one at a time. */
CLINUX_NO_LOCKS int observer_datagram_send(struct observer_datagram *target, const char *text, size_t bytes);

#endif
