/* Reads a blocked thread from outside: no signal is sent, and the thread is not affected in any way.
 *
 * In /proc/self/task/TID/syscall the kernel reports to a process whether its thread is running, or the system call,
 * program counter and stack pointer at which it is blocked (proc(5)). While a thread is blocked its stack does not
 * change and can be copied from outside. A signal would make nanosleep, poll, epoll_wait and others return early, even
 * with SA_RESTART (signal(7)). */
#ifndef OBSERVER_PASSIVE_H
#define OBSERVER_PASSIVE_H

#include "observer_base.h"
#include "observer_capture.h"
#include "observer_descriptor.h"
#include "observer_lock.h"

enum observer_activity {
  OBSERVER_ACTIVITY_UNKNOWN = 0,  /* the kernel does not report it */
  OBSERVER_RUNNING = 1,           /* running or runnable */
  OBSERVER_IN_CALL = 2,           /* blocked in a system call */
  OBSERVER_BLOCKED = 3,           /* blocked outside a system call, for example in a page fault */
  OBSERVER_IN_RESTARTED_CALL = 4, /* blocked in a restarted call (observer_restarted_call.h); in events only */
  /* For a task that no thread runs; in events only: */
  OBSERVER_SUSPENDED = 5, /* it waits at an await */
  OBSERVER_ENQUEUED = 6,  /* it is ready and waits for a thread */
};

/* A thread's state as reported by the kernel. */
struct observer_thread_status {
  enum observer_activity activity;
  int64_t call;          /* OBSERVER_IN_CALL: the system call's number */
  uint64_t arguments[6]; /* OBSERVER_IN_CALL: its arguments */
  uint64_t sp;           /* OBSERVER_IN_CALL, OBSERVER_BLOCKED: the stack pointer */
  uint64_t pc;           /* OBSERVER_IN_CALL, OBSERVER_BLOCKED: the program counter */
};

/* The descriptor, path and lock of the system call in STATUS: observer_descriptor_number, observer_path_read and
 * observer_lock_find with its arguments. Async-signal-safe: yes. Threads: any that can read memory. */
CLINUX_NO_LOCKS int32_t observer_awaited_descriptor(const struct observer_thread_status *status);
CLINUX_NO_LOCKS void observer_awaited_path(const struct observer_thread_status *status,
                                           struct observer_descriptor *descriptor);
CLINUX_NO_LOCKS void observer_awaited_lock(int32_t tid, const struct observer_thread_status *status,
                                           struct observer_lock *lock);

/* Parses TEXT, LENGTH bytes in the format of that file. The result is OBSERVER_ACTIVITY_UNKNOWN for any other text.
 * Async-signal-safe: yes. Threads: any. */
struct observer_thread_status observer_thread_status_parse(const char *text, size_t length);

/* Maps room for copies of up to STACK_BYTES_MAX bytes, in the same amounts as observer_capture_prepare, which must have
 * been called. Returns 0 or an errno value. Async-signal-safe: no. Threads: any, one at a time, while no capture is in
 * progress. */
int observer_passive_start(size_t stack_bytes_max);

/* Inspects THREAD and, if it is blocked and works on ITEM of SLOT (NULL SLOT: on any work), copies its stack. Sets
 * *SEEN to its status. On OBSERVER_CAPTURED, *COPY is valid until the next call. OBSERVER_NOT_BLOCKED: the thread is
 * running, or ran during the copy. OBSERVER_STATE_UNKNOWN: the kernel does not report it (the process is not dumpable,
 * or /proc is not mounted). OBSERVER_UNREADABLE: it is blocked, but its stack cannot be read. Async-signal-safe: yes.
 * Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_passively(struct observer_thread *thread,
                                                                        const struct observer_slot *slot, uint64_t item,
                                                                        struct observer_thread_status *seen,
                                                                        const struct stack_copy **copy);

#endif
