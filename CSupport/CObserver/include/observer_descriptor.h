/* The descriptor that the system call of a blocked thread is on: what is behind it, as the kernel tells it.
 *
 * It is asked for by its number. Whoever closes a descriptor that another thread waits on, and opens another file under
 * that number, gets the other one told.
 */
#ifndef OBSERVER_DESCRIPTOR_H
#define OBSERVER_DESCRIPTOR_H

#include "observer_base.h"

/* Whose address a socket has been asked for. */
enum observer_address_owner {
  OBSERVER_NO_ADDRESS = 0,
  OBSERVER_PEERS_ADDRESS = 1, /* of whom it is connected to */
  OBSERVER_OWN_ADDRESS = 2,   /* its own: it is connected to nobody */
};

enum { OBSERVER_TARGET_BYTES = 112, OBSERVER_ADDRESS_BYTES = 112 };

struct observer_descriptor {
  int32_t number;                     /* -1: the call is on none that is known */
  uint32_t target_bytes;              /* 0: the kernel does not tell */
  bool is_cut;                        /* the target is longer; its beginning is missing */
  char target[OBSERVER_TARGET_BYTES]; /* what /proc has for it: a path, "socket:[4711]" */
  uint32_t address_owner;             /* enum observer_address_owner */
  uint32_t address_bytes;             /* of the socket's address, a struct sockaddr */
  uint8_t address[OBSERVER_ADDRESS_BYTES];
  uint32_t unread; /* bytes that have come and are not read; UINT32_MAX: not known */
  uint32_t unsent; /* bytes that were written and have not been taken; UINT32_MAX: not known */
};

/* The number of the descriptor that the system call CALL with ARGUMENTS is on; -1 if there is none. Of several that
 * poll(2) waits for none is told. Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS int32_t observer_descriptor_number(int64_t call, const uint64_t arguments[6]);

/* Fills DESCRIPTOR with what is behind NUMBER. Async-signal-safe: yes. Threads: any that the kernel may hold up. */
CLINUX_NO_LOCKS void observer_descriptor_read(int32_t number, struct observer_descriptor *descriptor);

#endif
