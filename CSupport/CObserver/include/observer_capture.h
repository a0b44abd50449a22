/* Capture: a signal handler that copies a thread's registers and stack, and the sampler's side of it.
 *
 * The handler does not unwind, allocate or lock. It runs for about a microsecond for a usual stack. A sampler sends a
 * request, continues, and collects the answer in a later pass or withdraws the request: a thread that answers late
 * finds that its request is gone. Only observer_capture, for a thread whose system calls are allowed to return early,
 * waits for the handler, with a deadline. The monitor neither requests nor waits.
 *
 * The signal is SIGPROF. Dispatch workers and Swift Concurrency threads block every signal except ILL, TRAP, BUS, FPE,
 * SEGV, SYS and PROF (swift-corelibs-libdispatch, src/init.c), so no other usable signal reaches them. */
#ifndef OBSERVER_CAPTURE_H
#define OBSERVER_CAPTURE_H

#include "observer_base.h"
#include "observer_copy.h"
#include "observer_machine.h"
#include "observer_slot.h"
#include "observer_thread.h"

/* Result of a capture. */
enum observer_capture_status {
  OBSERVER_CAPTURED = 0,       /* there is a copy */
  OBSERVER_WORK_ITEM_OVER = 1, /* the work item ended before its thread was sampled: no copy */
  OBSERVER_THREAD_GONE = 2,    /* the thread is not registered, or has exited */
  OBSERVER_NO_ANSWER = 3,      /* the thread did not run the handler before the deadline, or blocks the signal */
  OBSERVER_NOT_SIGNALLED =
      4, /* the kernel refused to send the signal, or the thread could not run the handler (observer_thread_room) */
  OBSERVER_REQUESTS_STUCK = 5,   /* every request is held by a thread that was stopped while answering */
  OBSERVER_NOT_BLOCKED = 6,      /* the thread is running, so it cannot be read from outside */
  OBSERVER_STATE_UNKNOWN = 7,    /* the kernel does not report the thread's state */
  OBSERVER_NO_WORKER = 10,       /* no thread works on the work item: it waits for a thread */
  OBSERVER_HANDLER_REPLACED = 9, /* other code has installed another handler for SIGPROF */
  OBSERVER_SAMPLER_STOPPED = 11, /* no stacks are sampled: the kernel blocks the sampler */
  OBSERVER_TASK_GONE = 12,       /* the task that worked on it has ended, or is unknown */
  OBSERVER_ASLEEP = 13,          /* it was running before and sleeps now: read it from outside again */
  OBSERVER_UNREADABLE =
      8, /* it is blocked and its stack could not be read from outside; blocked threads get no signal */
};

/* When to send the signal to a thread. */
enum observer_send_when {
  OBSERVER_SEND_WHEN_RUNNING = 0, /* when it next computes (observer_signal.h); never if timers are refused */
  OBSERVER_SEND_SEEN_RUNNING = 1, /* when it computes, or immediately if timers are refused: it was just seen running */
  OBSERVER_SEND_NOW = 2,          /* immediately: a system call might return early */
};

/* Maps room for copies of up to STACK_BYTES_MAX bytes for the calling thread's context: up to 128 KiB for each request
 * and, if memory allows, for one deeper stack at a time. Returns 0 or an errno value. Async-signal-safe: no. Threads:
 * any, while no capture of that context is in progress. */
int observer_capture_prepare(size_t stack_bytes_max);

/* Installs the handler and maps room as observer_capture_prepare does, then captures the calling thread once. This
 * binds all functions that the handler calls, and detects a broken set-up. The handler passes other signals on to the
 * former handler. Repeated calls enlarge the room if necessary, and check that the handler works. Returns 0 or an errno
 * value; ENOTSUP for an unsupported architecture, ETIMEDOUT if the handler did not run, ENOBUFS if the calling thread's
 * alternate stack is too small for a signal. Async-signal-safe: no. Threads: any, one at a time, while no capture is in
 * progress. */
int observer_capture_start(size_t stack_bytes_max);

/* Requests a copy of THREAD's registers and stack, provided that it still works on ITEM of SLOT when it answers (NULL
 * SLOT: on any work). Returns OBSERVER_CAPTURED if the signal has been sent; *INDEX must then be passed to
 * observer_capture_collect, once. At most OBSERVER_REQUESTS_MAX requests can be pending. Async-signal-safe: yes.
 * Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_send(struct observer_thread *thread,
                                                                   const struct observer_slot *slot, uint64_t item,
                                                                   enum observer_send_when when, uint32_t *index);

/* Whether request INDEX is answered. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS bool observer_capture_is_answered(uint32_t index);

/* Whether any request is unanswered. Async-signal-safe: yes. Threads: any. */
bool observer_capture_is_pending(void);

/* Collects the answer to request INDEX, or withdraws the request; it is not answered afterwards. On OBSERVER_CAPTURED,
 * *COPY is valid until it is passed to observer_capture_release. Never blocks. Async-signal-safe: yes. Threads: a
 * sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_collect(uint32_t index, const struct stack_copy **copy);

/* Sends a request with OBSERVER_SEND_NOW, waits up to TIMEOUT_NS, and collects the answer. For a thread whose system
 * calls are allowed to return early. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture(struct observer_thread *thread,
                                                              const struct observer_slot *slot, uint64_t item,
                                                              uint64_t timeout_ns, const struct stack_copy **copy);

/* Releases the request of COPY, or wipes COPY if it has none. The request's copy stays until observer_capture_wipe: a
 * handler whose target memory is in another processor's cache takes twice the time. Async-signal-safe: yes. Threads:
 * the one that called observer_capture. */
CLINUX_NO_LOCKS void observer_capture_release(const struct stack_copy *copy);

/* Wipes the copies of released requests. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS void observer_capture_wipe(void);

/* Return the number of handler runs that found a live request; of our signals that arrived too late. Async-signal-safe:
 * yes. Threads: any. */
uint64_t observer_capture_answered(void);
uint64_t observer_capture_late(void);

/* Whether running threads are sent the signal immediately, because timers were refused when captures were set up.
 * Async-signal-safe: yes. Threads: any. */
bool observer_capture_disturbs(void);

/* Whether SIGPROF reaches this handler. Async-signal-safe: yes. Threads: any. */
bool observer_capture_handler_is_ours(void);

#endif
