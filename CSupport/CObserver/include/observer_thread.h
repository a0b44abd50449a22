/* Threads that watched work runs on.
 *
 * A thread registers itself when it first marks work (observer_thread_current) and is deregistered by a thread-exit
 * hook. Entries live in a table that is never freed, so that a pointer to one is always readable; an entry of a thread
 * that has gone is used again for a later one.
 */
#ifndef OBSERVER_THREAD_H
#define OBSERVER_THREAD_H

#include "observer_base.h"

/* What a registered thread is doing, as far as signalling it goes. */
enum observer_thread_state {
  OBSERVER_THREAD_FREE = 0,       /* no thread, or one that has left */
  OBSERVER_THREAD_LIVE = 1,       /* may be signalled */
  OBSERVER_THREAD_HELD = 2, /* the monitor is signalling it or reading its stack (its exit waits), or it is just exiting */
};

/* One registered thread. STATE is changed by the thread itself (FREE to LIVE, LIVE to FREE) and by the monitor (LIVE to
 * HELD and back); the other fields are written before the thread becomes LIVE and not changed while it is. */
struct observer_thread {
  _Atomic uint32_t state;
  _Atomic int32_t tid;
  _Atomic int32_t look_descriptor; /* /proc/self/task/TID/syscall, open as long as the thread is LIVE; negative if refused */
  _Atomic uint64_t stack_low;  /* lowest address of the thread's own stack, 0 if unknown */
  _Atomic uint64_t stack_high; /* one past its highest address, 0 if unknown */
  _Atomic uint64_t kept_out_ns; /* when the thread was last seen to block our signal, 0 for never; the monitor's */
};

extern _Thread_local struct observer_thread *observer_thread_self;

/* Registers the calling thread. Returns its entry, or NULL when OBSERVER_THREADS_MAX threads are registered or memory
 * for the exit hook is short: the thread's work is then seen but its stacks are not.
 * Async-signal-safe: no (locks, may allocate). Threads: any watched thread, for itself. */
struct observer_thread *observer_thread_register(void);

/* The calling thread's entry, registering it on the first call; NULL as for observer_thread_register.
 * Async-signal-safe: no. Threads: any watched thread, for itself. */
static inline struct observer_thread *observer_thread_current(void) {
  struct observer_thread *self = observer_thread_self;
  return self ? self : observer_thread_register();
}

/* The kernel's id of THREAD, or 0 when it has left. Async-signal-safe: yes. Threads: any. */
static inline OBSERVER_NO_LOCKS int32_t observer_thread_id(const struct observer_thread *thread) {
  if (atomic_load_explicit(&thread->state, memory_order_acquire) == OBSERVER_THREAD_FREE)
    return 0;
  return atomic_load_explicit(&thread->tid, memory_order_relaxed);
}

/* Keeps THREAD from exiting, for a moment: until observer_thread_let_go, its exit hook waits. Returns false, and holds
 * nothing, when the thread has left. What is done in between must not wait for the thread.
 * Async-signal-safe: yes. Threads: the monitor only. */
OBSERVER_NO_LOCKS bool observer_thread_hold(struct observer_thread *thread);
OBSERVER_NO_LOCKS void observer_thread_let_go(struct observer_thread *thread);

/* Whether the thread that registered THREAD, which is held, still is. One that left by the bare system call ran no exit hook,
 * and its id may be another's; its file in /proc stays its own, and cannot be read any more.
 * Async-signal-safe: yes. Threads: the monitor only. */
OBSERVER_NO_LOCKS bool observer_thread_remains(const struct observer_thread *thread);

/* Threads registered now. Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS uint32_t observer_thread_count(void);

/* The entry of the registered thread TID, or NULL. Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS struct observer_thread *observer_thread_find(int32_t tid);

/* Opens the file in which the kernel tells what thread TID of this process does (observer_passive.h). Returns a descriptor,
 * or the negative of an errno value when the kernel refuses.
 * Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS int observer_thread_open_look(int32_t tid);

/* Names the calling thread; at most 15 bytes are kept (pthread_setname_np(3)).
 * Async-signal-safe: no. Threads: any, for itself. */
void observer_thread_set_name(const char *name);

#endif
