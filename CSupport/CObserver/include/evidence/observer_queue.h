/* Counts the items that wait in a libdispatch queue. The layout of a queue's linked list is undocumented; it is
 * determined from a test queue. */
#ifndef OBSERVER_QUEUE_H
#define OBSERVER_QUEUE_H

#include "base/observer_base.h"

struct observer_queue_layout {
  int32_t last;       /* byte offset from the pointer to the first item to the pointer to the last */
  uint32_t next;      /* offset of the link to the next item, in bytes; 0: unknown */
  uint64_t uncounted; /* FIRST_ADDRESS of the main queue, whose items are unlinked all at once */
};

/* Sets the layout permanently. Async-signal-safe: yes. Threads: any, once. */
void observer_queue_know(const struct observer_queue_layout *layout);

enum { OBSERVER_WAITING_MAX = 1000 };

/* Counts the items in the queue whose first item is stored at FIRST_ADDRESS, up to OBSERVER_WAITING_MAX. Returns 0 also
 * if the list changes too fast. Async-signal-safe: yes. Threads: any that can read memory. */
CLINUX_NO_LOCKS uint32_t observer_queue_count(const struct observer_queue_layout *layout, uint64_t first_address);

/* observer_queue_count with the set layout; 0 if no layout is set. */
CLINUX_NO_LOCKS uint32_t observer_queue_waiting(uint64_t first_address);

/* Returns the queue whose item the calling thread runs; 0: unknown. Async-signal-safe: yes. Threads: any. */
uint64_t observer_queue_current(void);

#endif
