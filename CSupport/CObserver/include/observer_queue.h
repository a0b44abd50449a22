/* What waits in a queue of libdispatch's: a list, from the first that waits to the last one.
 *
 * Where a queue and what is in it keep that is nowhere promised: it is found out with a queue of our own.
 */
#ifndef OBSERVER_QUEUE_H
#define OBSERVER_QUEUE_H

#include "observer_base.h"

/* Where the links are. */
struct observer_queue_layout {
  int32_t last;       /* the word with the last that waits: bytes from the one with the first */
  uint32_t next;      /* the word with the next: bytes from the beginning of one that waits; 0: not known */
  uint64_t uncounted; /* where the main queue has its first: what it runs it takes off the list all at once */
};

/* Says where they are, for good. Async-signal-safe: yes. Threads: any, once. */
void observer_queue_know(const struct observer_queue_layout *layout);

/* So many are counted at most. */
enum { OBSERVER_WAITING_MAX = 1000 };

/* Counts what waits in the queue that has the first of it at FIRST_ADDRESS: OBSERVER_WAITING_MAX where there are more,
 * 0 where nothing waits, or the list changes too fast. Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS uint32_t observer_queue_count(const struct observer_queue_layout *layout, uint64_t first_address);

/* The same by what has been said; 0 where nothing has. */
CLINUX_NO_LOCKS uint32_t observer_queue_waiting(uint64_t first_address);

/* The queue that the calling thread runs something of; 0: none that is known. Async-signal-safe: yes. Threads: any. */
uint64_t observer_queue_current(void);

#endif
