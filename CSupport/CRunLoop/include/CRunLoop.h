/* Run loop observers without a dependency on Foundation.
 *
 * On Linux, Core Foundation is part of libFoundation, which takes about 8 MiB of resident memory in a service that does
 * not use it. Core Foundation's functions are therefore weak references: they are available only if the service itself
 * links Foundation. */
#ifndef CRUNLOOP_H
#define CRUNLOOP_H

#include <stdbool.h>

/* Whether Core Foundation is part of this process. Threads: any. */
bool crunloop_available(void);

/* Activities of a run loop that are reported to its observers, as in CFRunLoop.h. */
enum crunloop_activity {
  CRUNLOOP_ENTRY = 1 << 0,
  CRUNLOOP_BEFORE_TIMERS = 1 << 1,
  CRUNLOOP_BEFORE_SOURCES = 1 << 2,
  CRUNLOOP_BEFORE_WAITING = 1 << 5,
  CRUNLOOP_AFTER_WAITING = 1 << 6,
  CRUNLOOP_EXIT = 1 << 7,
};

/* Returns the run loop of the main thread, or of the calling thread; not retained. NULL if Core Foundation is absent.
 * Threads: any. */
void *crunloop_main(void);
void *crunloop_current(void);

/* Adds a repeating observer for ACTIVITIES (a set of enum crunloop_activity) to LOOP in the common modes. CALLBACK is
 * called on the loop's thread with the activity and CONTEXT, before the loop's other observers if FIRST is set,
 * otherwise after them. Returns the observer, which must be passed to crunloop_remove_observer once, or NULL if Core
 * Foundation is absent or memory is exhausted. Threads: any. */
void *crunloop_add_observer(void *loop, unsigned long activities, bool first,
                            void (*callback)(unsigned long activity, void *context), void *context);

/* Removes OBSERVER from its loop and releases it. A callback that is running on the loop's thread can finish after this
 * function has returned, so its CONTEXT must stay valid. Threads: any. */
void crunloop_remove_observer(void *observer);

#endif
