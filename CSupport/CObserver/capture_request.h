/* What the handler that copies stacks and the samplers that ask for copies share: the requests. Internal to the
 * observer.
 */
#ifndef CAPTURE_REQUEST_H
#define CAPTURE_REQUEST_H

#include "clinux_context.h"
#include "observer_slot.h"
#include "observer_thread.h"

#include "CUnwind.h"

/* The state is the lower part of a request's word; above it is a number that changes with every use, so that a handler
 * which looked at an earlier use cannot answer this one.
 *
 * A request's life: IDLE -> ARMED (monitor) -> COPYING -> DONE or OVER (handler) -> IDLE (monitor). A request whose
 * deadline passes goes ARMED -> IDLE, so that a late handler finds nothing to do; one whose handler has begun and does
 * not finish (its thread was stopped in it) stays COPYING, and another request is used until it is DONE. */
enum observer_request_state {
  REQUEST_IDLE = 0,
  REQUEST_ARMED = 1,
  REQUEST_COPYING = 2,
  REQUEST_DONE = 3,
  REQUEST_OVER = 4,
};

enum { STATE_MASK = 7, USE_STEP = 8 };

struct observer_request {
  _Atomic uint32_t word;
  bool sent;                            /* the monitor has yet to collect or release it; monitor-owned */
  bool abandoned;                       /* the monitor no longer waits for it; monitor-owned */
  int timer;                            /* what sends the signal, or OBSERVER_NO_TIMER; monitor-owned */
  const struct observer_thread *thread; /* who is asked; its id may be another thread's later. Monitor-owned, */
  uint32_t thread_use;                  /* as this */
  /* Written by the monitor before ARMED, read by the handler. */
  pid_t tid;
  const struct observer_slot *slot;
  uint64_t item;
  bool is_awaited;       /* the monitor sleeps until it is answered */
  _Atomic uint32_t mark; /* an observer_signal_mark; also written between ARMED and the signal */
  uint64_t stack_low;
  uint64_t stack_high;
  uint8_t *stack;
  size_t stack_capacity;
  size_t stack_bytes_max; /* how much may be copied, where there is room for it */
  size_t unwiped;         /* how much of STACK may hold what copies left; monitor-owned */
  /* Written by the handler between COPYING and DONE. */
  struct stack_copy copy;
};

/* The upper half of the value that travels with our signals; the lower half is the request's index. */
#define OBSERVER_SIGNAL_MAGIC UINT64_C(0x43554c50)

/* Those of each context, one context's behind the other's. */
enum { REQUESTS_ALL = CLINUX_CONTEXTS_MAX * OBSERVER_REQUESTS_MAX };
extern struct observer_request observer_requests[REQUESTS_ALL];

/* Puts the handler in place. Signals that are not ours go to the one that was there before. Returns 0 or an errno
 * value. Async-signal-safe: no. Threads: any, one at a time. */
int observer_handler_install(void);

/* Whether SIGPROF still comes to us. Somebody may have replaced the handler since; where nobody has taken it over (the
 * default action would end the process) ours is put back.
 * Async-signal-safe: yes. Threads: a sampler, in its own context. */
bool observer_handler_keep(void);

#endif
