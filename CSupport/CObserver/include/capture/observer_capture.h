/* Capture: a signal handler that copies a thread's registers and stack, and the sampler's functions for it.
 *
 * A sampler sends a request, continues, and collects the answer later.
 *
 * The signal is SIGPROF: Dispatch workers and Swift Concurrency threads block every signal except ILL, TRAP, BUS, FPE,
 * SEGV, SYS and PROF (swift-corelibs-libdispatch, src/init.c). */
#ifndef OBSERVER_CAPTURE_H
#define OBSERVER_CAPTURE_H

#include "base/observer_base.h"
#include "base/observer_machine.h"
#include "capture/observer_copy.h"
#include "slots/observer_slot.h"
#include "slots/observer_thread.h"

enum observer_capture_status {
  OBSERVER_CAPTURED = 0,
  OBSERVER_WORK_ITEM_OVER = 1, /* the work item ended before the capture */
  OBSERVER_THREAD_GONE = 2,    /* not registered, or exited */
  OBSERVER_NO_ANSWER = 3,      /* not answered in time, or the signal is blocked */
  OBSERVER_NOT_SIGNALLED = 4,  /* the kernel refused the signal, or the stack has no room (observer_thread_room) */
  OBSERVER_REQUESTS_STUCK = 5, /* all requests are held by threads stopped while answering */
  OBSERVER_NOT_BLOCKED = 6,    /* running: cannot be read from outside */
  OBSERVER_STATE_UNKNOWN = 7,
  OBSERVER_NO_WORKER = 10, /* the work item waits for a thread */
  OBSERVER_HANDLER_REPLACED = 9,
  OBSERVER_SAMPLER_STOPPED = 11, /* the kernel blocks the sampler */
  OBSERVER_TASK_GONE = 12,       /* ended, or unknown */
  OBSERVER_ASLEEP = 13,          /* asleep now: can be read from outside */
  OBSERVER_UNREADABLE = 8,       /* blocked, and unreadable from outside */
  OBSERVER_SECTION_LEFT = 14,    /* the function that began the section has returned (observer_slot_has_left) */
};

enum observer_send_when {
  OBSERVER_SEND_WHEN_RUNNING = 0, /* when the thread next runs (observer_signal.h); never if timers are refused */
  OBSERVER_SEND_SEEN_RUNNING = 1, /* when the thread next runs, or immediately if timers are refused */
  OBSERVER_SEND_NOW = 2,          /* immediately: a system call might return early */
};

/* Maps buffers for stack copies in the calling thread's context: up to 128 KiB for each request, and STACK_BYTES_MAX
 * bytes for one deep stack. Returns 0 or an errno value. Async-signal-safe: no. Threads: any, while no capture of that
 * context is in progress. */
int observer_capture_prepare(size_t stack_bytes_max);

/* Installs the handler, maps buffers (observer_capture_prepare), and captures the calling thread to bind the handler's
 * functions. Returns 0 or an errno value; ENOTSUP: unsupported architecture, ETIMEDOUT: the handler did not run,
 * ENOBUFS: the alternate stack is too small. Async-signal-safe: no. Threads: any, one at a time, while no capture is in
 * progress. */
int observer_capture_start(size_t stack_bytes_max);

/* Requests a copy of THREAD's registers and stack. The thread answers only if it still works on ITEM of SLOT (NULL
 * SLOT: on any work). After OBSERVER_CAPTURED, *INDEX must be passed to observer_capture_collect, once.
 * Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_send(struct observer_thread *thread,
                                                                   const struct observer_slot *slot, uint64_t item,
                                                                   enum observer_send_when when, uint32_t *index);

/* Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS bool observer_capture_is_answered(uint32_t index);

/* Async-signal-safe: yes. Threads: any. */
bool observer_capture_is_pending(void);

/* Collects the answer to request INDEX, or withdraws the request. OBSERVER_CAPTURED: *COPY is valid until
 * observer_capture_release. Never blocks. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_collect(uint32_t index, const struct stack_copy **copy);

/* Sends a request with OBSERVER_SEND_NOW, waits up to TIMEOUT_NS, and collects the answer. Async-signal-safe: yes.
 * Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture(struct observer_thread *thread,
                                                              const struct observer_slot *slot, uint64_t item,
                                                              uint64_t timeout_ns, const struct stack_copy **copy);

/* Releases the request of COPY. The copied stack stays in memory until observer_capture_wipe. If COPY has no request,
 * its stack is wiped now. Async-signal-safe: yes. Threads: the one that called observer_capture. */
CLINUX_NO_LOCKS void observer_capture_release(const struct stack_copy *copy);

/* Wipes the copies of released requests. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS void observer_capture_wipe(void);

/* Return the number of answers, and of our signals that arrived too late. Async-signal-safe: yes. Threads: any. */
uint64_t observer_capture_answered(void);
uint64_t observer_capture_late(void);

/* Whether running threads are signalled immediately, because timers were refused. Async-signal-safe: yes. Threads:
 * any. */
bool observer_capture_disturbs(void);

/* Whether SIGPROF reaches our handler. Async-signal-safe: yes. Threads: any. */
bool observer_capture_handler_is_ours(void);

#endif
