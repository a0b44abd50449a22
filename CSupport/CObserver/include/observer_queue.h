/* The number of items waiting in a libdispatch queue, a linked list. Its layout is undocumented and determined with a
 * test queue. */
#ifndef OBSERVER_QUEUE_H
#define OBSERVER_QUEUE_H

#include "observer_base.h"

struct observer_queue_layout {
  int32_t last;       /* offset of the word with the last item from the word with the first, in bytes */
  uint32_t next;      /* offset of the link to the next item, in bytes; 0: unknown */
  uint64_t uncounted; /* address of the main queue's first item, which it unlinks together with the others */
};

/* Sets the layout permanently. Async-signal-safe: yes. Threads: any, once. */
void observer_queue_know(const struct observer_queue_layout *layout);

enum { OBSERVER_WAITING_MAX = 1000 };

/* Counts the items in the queue whose first item is stored at FIRST_ADDRESS, up to OBSERVER_WAITING_MAX; 0 also if the
 * list changes too fast. Async-signal-safe: yes. Threads: any that can read memory. */
CLINUX_NO_LOCKS uint32_t observer_queue_count(const struct observer_queue_layout *layout, uint64_t first_address);

/* Counts the items with the layout that has been set; 0 if none has been. */
CLINUX_NO_LOCKS uint32_t observer_queue_waiting(uint64_t first_address);

/* Returns the queue whose item the calling thread is running; 0: unknown. Async-signal-safe: yes. Threads: any. */
uint64_t observer_queue_current(void);

#endif
