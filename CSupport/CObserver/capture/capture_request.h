/* Requests that samplers share with the handler. */
#ifndef CAPTURE_REQUEST_H
#define CAPTURE_REQUEST_H

#include "clinux_context.h"
#include "slots/observer_slot.h"
#include "slots/observer_thread.h"

#include "CUnwind.h"

/* The low bits of a request's word. The high bits change with every use, so a late handler cannot answer a request that
 * is in use again.
 *
 * IDLE -> ARMED (sampler) -> COPYING -> DONE or OVER (handler) -> IDLE (sampler). A request that is not answered in
 * time goes ARMED -> IDLE. If its thread is stopped while answering, the request stays COPYING and is not used until
 * the thread continues. */
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
  bool sent;                            /* must still be collected or released; sampler-owned */
  bool abandoned;                       /* no longer awaited; sampler-owned */
  int timer;                            /* or OBSERVER_NO_TIMER; sampler-owned */
  const struct observer_thread *thread; /* its entry might be reused; sampler-owned */
  uint32_t thread_use;                  /* THREAD's use; sampler-owned */
  /* Written by the sampler before ARMED, read by the handler. */
  pid_t tid;
  const struct observer_slot *slot;
  uint64_t item;
  bool is_awaited;       /* the sampler sleeps until the answer */
  _Atomic uint32_t mark; /* an observer_signal_mark; written until the signal is sent */
  uint64_t stack_low;
  uint64_t stack_high;
  uint8_t *stack;
  size_t stack_capacity;
  size_t stack_bytes_max;
  size_t unwiped; /* bytes that might hold earlier copies; sampler-owned */
  /* Written by the handler between COPYING and DONE. */
  struct stack_copy copy;
};

/* Upper half of our signals' value; the lower half is the request's index. */
#define OBSERVER_SIGNAL_MAGIC UINT64_C(0x43554c50)

/* The requests of all contexts, one context after the other. */
enum { REQUESTS_ALL = CLINUX_CONTEXTS_MAX * OBSERVER_REQUESTS_MAX };
extern struct observer_request observer_requests[REQUESTS_ALL];

/* Installs the handler, which passes other signals on. Returns 0 or an errno value. Async-signal-safe: no. Threads:
 * any, one at a time. */
int observer_handler_install(void);

/* Whether SIGPROF still reaches the handler. Reinstalls the handler over the default action, which would end the
 * process. Async-signal-safe: yes. Threads: a sampler, in its own context. */
bool observer_handler_keep(void);

#endif
