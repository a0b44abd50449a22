/* Run loop observers without a dependency on Foundation.
 *
 * Core Foundation is part of libFoundation on Linux, which costs a service that does not use it some 8 MiB of resident
 * memory. Its functions are referred to weakly here: they are there when the service itself links Foundation, and
 * absent otherwise.
 */
#ifndef CRUNLOOP_H
#define CRUNLOOP_H

#include <stdbool.h>
#include <stddef.h>

/* Whether Core Foundation is part of this process. Threads: any. */
bool crunloop_available(void);

/* What a run loop tells its observers, as in CFRunLoop.h. */
enum crunloop_activity {
  CRUNLOOP_ENTRY = 1 << 0,
  CRUNLOOP_BEFORE_TIMERS = 1 << 1,
  CRUNLOOP_BEFORE_SOURCES = 1 << 2,
  CRUNLOOP_BEFORE_WAITING = 1 << 5,
  CRUNLOOP_AFTER_WAITING = 1 << 6,
  CRUNLOOP_EXIT = 1 << 7,
};

/* The run loop of the main thread, or of the calling thread; not retained. NULL when Core Foundation is absent.
 * Threads: any. */
void *crunloop_main(void);
void *crunloop_current(void);

/* Adds a repeating observer for ACTIVITIES (a set of enum crunloop_activity) to LOOP in the common modes. CALLBACK is
 * called on the loop's thread with the activity and CONTEXT, before the loop's other observers when FIRST is set, after
 * them when it is not. Returns the observer, to be given to crunloop_remove_observer once, or NULL when Core Foundation
 * is absent or memory is short. Threads: any. */
void *crunloop_add_observer(void *loop, unsigned long activities, bool first,
                            void (*callback)(unsigned long activity, void *context), void *context);

/* Removes OBSERVER from its loop and releases it. A callback that is under way on the loop's thread may still finish
 * after this has returned, so its CONTEXT must stay valid. Threads: any. */
void crunloop_remove_observer(void *observer);

#endif
