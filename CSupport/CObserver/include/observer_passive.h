/* Reading a blocked thread from outside: no signal is sent, and nothing in the thread can notice.
 *
 * The kernel tells a process of its own threads, in /proc/self/task/TID/syscall, whether they run, or in which system
 * call they are blocked at which program counter and stack pointer (proc(5)). While a thread is blocked its stack does
 * not change and can be copied from outside. A signal would make nanosleep, poll, epoll_wait and others return early,
 * even with SA_RESTART (signal(7)).
 */
#ifndef OBSERVER_PASSIVE_H
#define OBSERVER_PASSIVE_H

#include "observer_base.h"
#include "observer_capture.h"
#include "observer_descriptor.h"
#include "observer_lock.h"

enum observer_activity {
  OBSERVER_ACTIVITY_UNKNOWN = 0,  /* the kernel does not tell */
  OBSERVER_RUNNING = 1,           /* on a processor, or waiting for one */
  OBSERVER_IN_CALL = 2,           /* blocked in a system call */
  OBSERVER_BLOCKED = 3,           /* blocked outside a system call: in a page fault, for one */
  OBSERVER_IN_RESTARTED_CALL = 4, /* blocked in one that was begun anew (observer_restarted_call.h); in events only */
  /* Of a task that no thread runs; in events only: */
  OBSERVER_SUSPENDED = 5, /* it waits at an await */
  OBSERVER_ENQUEUED = 6,  /* it is ready, and waits for a thread */
};

/* What the kernel says of a thread's state. */
struct observer_thread_status {
  enum observer_activity activity;
  int64_t call;          /* OBSERVER_IN_CALL: the system call's number */
  uint64_t arguments[6]; /* OBSERVER_IN_CALL: its arguments */
  uint64_t sp;           /* OBSERVER_IN_CALL, OBSERVER_BLOCKED: the stack pointer */
  uint64_t pc;           /* OBSERVER_IN_CALL, OBSERVER_BLOCKED: the program counter */
};

/* What the call of STATUS is on and waits for: observer_descriptor_number, observer_path_read and observer_lock_find of
 * its arguments.
 * Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS int32_t observer_awaited_descriptor(const struct observer_thread_status *status);
CLINUX_NO_LOCKS void observer_awaited_path(const struct observer_thread_status *status,
                                           struct observer_descriptor *descriptor);
CLINUX_NO_LOCKS void observer_awaited_lock(int32_t tid, const struct observer_thread_status *status,
                                           struct observer_lock *lock);

/* Parses TEXT, of LENGTH bytes, as the kernel writes that file. Anything else is OBSERVER_ACTIVITY_UNKNOWN.
 * Async-signal-safe: yes. Threads: any. */
struct observer_thread_status observer_thread_status_parse(const char *text, size_t length);

/* Makes room for copies of up to STACK_BYTES_MAX bytes, as observer_capture_prepare, which must have been called, does.
 * Returns 0 or an errno value. Async-signal-safe: no. Threads: any, one at a time, while no capture is under way. */
int observer_passive_start(size_t stack_bytes_max);

/* Looks at THREAD and, if it is blocked and works on ITEM of SLOT (a NULL SLOT: on whatever), copies its stack. *SEEN
 * says what was seen. On OBSERVER_CAPTURED, *COPY is valid until the next call. OBSERVER_NOT_BLOCKED: the thread runs,
 * or did so while it was copied. OBSERVER_STATE_UNKNOWN: the kernel does not tell (a process that is not dumpable,
 * /proc that is not mounted). OBSERVER_UNREADABLE: it is blocked, but its stack cannot be read. Async-signal-safe: yes.
 * Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_passively(struct observer_thread *thread,
                                                                        const struct observer_slot *slot, uint64_t item,
                                                                        struct observer_thread_status *seen,
                                                                        const struct stack_copy **copy);

#endif
