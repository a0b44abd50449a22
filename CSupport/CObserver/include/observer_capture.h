/* Capture: a signal handler that copies a thread's registers and stack, and the sampler's side of it.
 *
 * The handler does nothing else: no unwinding, no allocation, no lock. It runs for about a microsecond for a usual
 * stack. A sampler asks, goes on, and collects the answer at a later pass, or takes the request back: a thread that
 * answers late finds that its request is gone. Only observer_capture, for a thread that may be disturbed, waits for the
 * handler, with a deadline. The monitor neither asks nor waits.
 *
 * The signal is SIGPROF. Dispatch workers and Swift Concurrency threads block every signal except ILL, TRAP, BUS, FPE,
 * SEGV, SYS and PROF (swift-corelibs-libdispatch, src/init.c), so that no other usable signal arrives there.
 */
#ifndef OBSERVER_CAPTURE_H
#define OBSERVER_CAPTURE_H

#include "observer_base.h"
#include "observer_copy.h"
#include "observer_machine.h"
#include "observer_slot.h"
#include "observer_thread.h"

#include <signal.h>

#define OBSERVER_SIGNAL SIGPROF

/* How a capture went. */
enum observer_capture_status {
  OBSERVER_CAPTURED = 0,       /* there is a copy */
  OBSERVER_WORK_ITEM_OVER = 1, /* the work item ended before its thread could be looked at: no copy */
  OBSERVER_THREAD_GONE = 2,    /* the thread is not registered, or has exited */
  OBSERVER_NO_ANSWER = 3,      /* the thread did not run the handler before the deadline, or blocks the signal */
  OBSERVER_NOT_SIGNALLED =
      4, /* the kernel refused to send the signal, or the thread could not run the handler (observer_thread_room) */
  OBSERVER_REQUESTS_STUCK = 5,   /* every request is held by a thread that began to answer and was stopped in it */
  OBSERVER_NOT_BLOCKED = 6,      /* the thread runs, so that it cannot be read from outside */
  OBSERVER_STATE_UNKNOWN = 7,    /* the kernel does not tell what the thread is doing */
  OBSERVER_NO_WORKER = 10,       /* nobody works on the work item: it waits for a thread */
  OBSERVER_HANDLER_REPLACED = 9, /* somebody has installed another handler for SIGPROF */
  OBSERVER_SAMPLER_STOPPED = 11, /* nobody takes stacks: the kernel holds up who did */
  OBSERVER_TASK_GONE = 12,       /* the task that worked on it has ended, or was never known */
  OBSERVER_ASLEEP = 13,          /* it was seen running and sleeps by now: it is to be read from outside once more */
  OBSERVER_UNREADABLE =
      8, /* it is blocked and its stack could not be read from outside; blocked threads get no signal */
};

/* When a thread is to get the signal. */
enum observer_send_when {
  OBSERVER_SEND_WHEN_RUNNING = 0, /* as soon as it computes: observer_signal.h. Not at all where timers are refused */
  OBSERVER_SEND_SEEN_RUNNING = 1, /* the same, but at once where timers are refused: it has just been seen running */
  OBSERVER_SEND_NOW = 2,          /* at once, whatever it does: a system call may return early */
};

/* Makes room for copies of up to STACK_BYTES_MAX bytes for the calling thread's context: up to 128 KiB for each and,
 * where there is memory for that, for one at a time of what is deeper. Returns 0 or an errno value. Async-signal-safe:
 * no. Threads: any, while no capture of that context is under way. */
int observer_capture_prepare(size_t stack_bytes_max);

/* Installs the handler and makes room as observer_capture_prepare does, then captures the calling thread once, so that
 * every function the handler calls is bound and a broken set-up is noticed here. Signals that are not ours are passed
 * on to the handler that was there before. Further calls make room for more if needed, and check
 * that the handler works. Returns 0 or an errno value; ENOTSUP for an architecture without support, ETIMEDOUT when
 * the handler did not run, ENOBUFS when the calling thread's alternate stack is too small for a signal.
 * Async-signal-safe: no. Threads: any, one at a time, while no capture is under way. */
int observer_capture_start(size_t stack_bytes_max);

/* Asks THREAD for a copy of its registers and stack, provided that it still works on ITEM of SLOT when it comes to it
 * (a NULL SLOT: whatever it works on). Returns OBSERVER_CAPTURED when the signal is on its way; *INDEX must then be
 * given to observer_capture_collect, once. At most OBSERVER_REQUESTS_MAX threads can be asked at the same time.
 * Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_send(struct observer_thread *thread,
                                                                   const struct observer_slot *slot, uint64_t item,
                                                                   enum observer_send_when when, uint32_t *index);

/* Whether request INDEX is answered. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS bool observer_capture_is_answered(uint32_t index);

/* Whether a thread has been asked for its stack and has not answered yet. Async-signal-safe: yes. Threads: any. */
bool observer_capture_is_pending(void);

/* Takes the answer to request INDEX, or the request back: it is not answered any more then. On OBSERVER_CAPTURED, *COPY
 * is valid until it is given to observer_capture_release. Waits for nothing. Async-signal-safe: yes. Threads: a
 * sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_collect(uint32_t index, const struct stack_copy **copy);

/* All of it in one, with OBSERVER_SEND_NOW: for a thread that may be disturbed. Waits for at most TIMEOUT_NS.
 * Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture(struct observer_thread *thread,
                                                              const struct observer_slot *slot, uint64_t item,
                                                              uint64_t timeout_ns, const struct stack_copy **copy);

/* Gives the request of COPY back, and wipes COPY if it has none. What a request has copied stays until
 * observer_capture_wipe: a handler that has to fetch the memory for its copy back from another processor takes twice
 * the time. Async-signal-safe: yes. Threads: the one that called observer_capture. */
CLINUX_NO_LOCKS void observer_capture_release(const struct stack_copy *copy);

/* Wipes what requests that were given back have copied.
 * Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS void observer_capture_wipe(void);

/* Handler runs that found a live request; those of our signals that came too late for theirs; signals that were sent at
 * once because timers are refused here.
 * Async-signal-safe: yes. Threads: any. */
uint64_t observer_capture_answered(void);
uint64_t observer_capture_late(void);
uint64_t observer_capture_unguarded(void);

/* Whether threads that are seen running are sent the signal at once, because timers were refused when captures were set
 * up. Async-signal-safe: yes. Threads: any. */
bool observer_capture_disturbs(void);

/* Whether SIGPROF comes to our handler. Async-signal-safe: yes. Threads: any. */
bool observer_capture_handler_is_ours(void);

#endif
