/* The number of items waiting in a libdispatch queue, a linked list of undocumented layout, determined with a test
 * queue. */
#ifndef OBSERVER_QUEUE_H
#define OBSERVER_QUEUE_H

#include "base/observer_base.h"

struct observer_queue_layout {
  int32_t last;       /* offset of the last item's word from the first item's, in bytes */
  uint32_t next;      /* offset of the link to the next item, in bytes; 0: unknown */
  uint64_t uncounted; /* the main queue's first item, unlinked with the others */
};

/* Sets the layout permanently. Async-signal-safe: yes. Threads: any, once. */
void observer_queue_know(const struct observer_queue_layout *layout);

enum { OBSERVER_WAITING_MAX = 1000 };

/* Counts the items in the queue whose first item is stored at FIRST_ADDRESS, up to OBSERVER_WAITING_MAX; 0 also if the
 * list changes too fast. Async-signal-safe: yes. Threads: any that can read memory. */
CLINUX_NO_LOCKS uint32_t observer_queue_count(const struct observer_queue_layout *layout, uint64_t first_address);

/* Counts with the set layout; 0: none is set. */
CLINUX_NO_LOCKS uint32_t observer_queue_waiting(uint64_t first_address);

/* Returns the queue whose item the calling thread runs; 0: unknown. Async-signal-safe: yes. Threads: any. */
uint64_t observer_queue_current(void);

#endif
