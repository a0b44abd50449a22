/* Reads a blocked thread from outside. A blocked thread's stack does not change, and /proc/self/task/TID/syscall
 * contains its system call, program counter and stack pointer (proc(5)). */
#ifndef OBSERVER_PASSIVE_H
#define OBSERVER_PASSIVE_H

#include "base/observer_base.h"
#include "capture/observer_capture.h"
#include "evidence/observer_descriptor.h"
#include "evidence/observer_lock.h"

enum observer_activity {
  OBSERVER_ACTIVITY_UNKNOWN = 0,
  OBSERVER_RUNNING = 1, /* running or runnable */
  OBSERVER_IN_CALL = 2,
  OBSERVER_BLOCKED = 3,           /* outside a system call: in a page fault */
  OBSERVER_IN_RESTARTED_CALL = 4, /* observer_restarted_call.h; in events only */
  /* A task that no thread runs, in events only: */
  OBSERVER_SUSPENDED = 5, /* waits at an await */
  OBSERVER_ENQUEUED = 6,  /* ready, waits for a thread */
};

struct observer_thread_status {
  enum observer_activity activity;
  int64_t call;          /* OBSERVER_IN_CALL */
  uint64_t arguments[6]; /* OBSERVER_IN_CALL */
  uint64_t sp;           /* OBSERVER_IN_CALL, OBSERVER_BLOCKED */
  uint64_t pc;           /* OBSERVER_IN_CALL, OBSERVER_BLOCKED */
};

/* Call observer_descriptor_number, observer_path_read and observer_lock_find for the system call in STATUS.
 * Async-signal-safe: yes. Threads: any that can read memory. */
CLINUX_NO_LOCKS int32_t observer_awaited_descriptor(const struct observer_thread_status *status);
CLINUX_NO_LOCKS void observer_awaited_path(const struct observer_thread_status *status,
                                           struct observer_descriptor *descriptor);
CLINUX_NO_LOCKS void observer_awaited_lock(int32_t tid, const struct observer_thread_status *status,
                                           struct observer_lock *lock);

/* Parses TEXT, LENGTH bytes of /proc/self/task/TID/syscall. Async-signal-safe: yes. Threads: any. */
struct observer_thread_status observer_thread_status_parse(const char *text, size_t length);

/* Maps a buffer for copies of up to STACK_BYTES_MAX bytes, after observer_capture_prepare. Returns 0 or an errno value.
 * Async-signal-safe: no. Threads: any, one at a time, while no capture is in progress. */
int observer_passive_start(size_t stack_bytes_max);

/* Sets *SEEN to THREAD's status. Copies the stack if the thread is blocked and works on ITEM of SLOT (NULL SLOT: on any
 * work). OBSERVER_CAPTURED: *COPY is valid until the next call. OBSERVER_NOT_BLOCKED: the thread runs, or ran during
 * the copy. OBSERVER_STATE_UNKNOWN: the process is not dumpable, or /proc is not mounted. Async-signal-safe: yes.
 * Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS enum observer_capture_status observer_capture_passively(struct observer_thread *thread,
                                                                        const struct observer_slot *slot, uint64_t item,
                                                                        struct observer_thread_status *seen,
                                                                        const struct stack_copy **copy);

#endif
