/* Threads that run watched work. A thread registers itself when it first marks work, and a thread-exit hook deregisters
 * it. Entries are never freed, so pointers to them stay readable. An exited thread's entry is reused, unless it is
 * held. */
#ifndef OBSERVER_THREAD_H
#define OBSERVER_THREAD_H

#include "base/observer_base.h"

#include <signal.h>

/* Bit 0: the thread is registered; above: number of holders. */
enum observer_thread_state {
  OBSERVER_THREAD_FREE = 0,
  OBSERVER_THREAD_LIVE = 1,
  OBSERVER_THREAD_HELD = 2, /* a holder prevents reuse */
};

/* Room on a thread's stack for our signal. */
enum observer_thread_room {
  OBSERVER_ROOM_ENOUGH = 0,
  OBSERVER_ROOM_LACKING = 1, /* sent no signal */
  OBSERVER_ROOM_UNKNOWN = 2, /* not registered: see observer_thread_can_answer */
};

/* STATE is changed by the thread (LIVE) and by holders; the other fields are written before LIVE and stay until
 * reuse. */
struct observer_thread {
  _Atomic uint32_t state;
  _Atomic uint32_t use; /* number of uses */
  _Atomic int32_t tid;
  _Atomic uint64_t registered_ns;     /* CLOCK_BOOTTIME */
  _Atomic uint64_t self_address;      /* address of the thread's pointer to this entry */
  _Atomic uint64_t stack_low;         /* 0: unknown */
  _Atomic uint64_t stack_high;        /* one past the stack's end; 0: unknown */
  _Atomic uint32_t room;              /* an observer_thread_room */
  uint8_t *alternate;                 /* stack made for the thread, with guard page, or NULL; thread-owned */
  size_t alternate_bytes;             /* thread-owned */
  _Atomic uint64_t kept_out_until_ns; /* until then assumed to block our signal; 0: never; sampler-owned */
  _Atomic uint64_t let_in_ns;         /* last seen running without blocking our signal; sampler-owned */
};

extern _Thread_local struct observer_thread *observer_thread_self;

/* Sets the function ENDS, which each exiting registered thread calls. ENDS must be the same in all calls.
 * Async-signal-safe: yes. Threads: any; ENDS: the exiting one. */
void observer_thread_at_exit(void (*ends)(struct observer_thread *thread));

#define OBSERVER_SIGNAL SIGPROF

/* Time for which an observed signal mask is assumed to be unchanged. */
#define OBSERVER_MASK_KNOWN_NS UINT64_C(10000000000)

/* Stack use of our handler without the kernel's frame. */
#define OBSERVER_HANDLER_STACK_BYTES 2048

/* Stacks up to this size might have no space left for our handler. */
#define OBSERVER_SMALL_STACK_BYTES (256 << 10)

/* Registers the calling thread, with an alternate signal stack if its stack is small. Returns the entry. NULL:
 * OBSERVER_THREADS_MAX threads are registered, or there is no memory; the thread's work is then observed without
 * stacks. Async-signal-safe: no (locks, can allocate). Threads: any watched thread, for itself. */
struct observer_thread *observer_thread_register(void);

/* Returns the calling thread's entry, registering it on the first call. Async-signal-safe: no. Threads: any watched
 * thread, for itself. */
static inline struct observer_thread *observer_thread_current(void) {
  struct observer_thread *self = observer_thread_self;
  return self ? self : observer_thread_register();
}

/* Return whether THREAD is registered, and its ID (0: exited). Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_thread_is_live(const struct observer_thread *thread) {
  return (atomic_load_explicit(&thread->state, memory_order_acquire) & OBSERVER_THREAD_LIVE) != 0;
}
static inline CLINUX_NO_LOCKS int32_t observer_thread_id(const struct observer_thread *thread) {
  return observer_thread_is_live(thread) ? atomic_load_explicit(&thread->tid, memory_order_relaxed) : 0;
}

/* Return the number of THREAD's current use, and whether that is still USE and the thread has not exited.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_thread_use(const struct observer_thread *thread) {
  return atomic_load_explicit(&thread->use, memory_order_acquire);
}
static inline CLINUX_NO_LOCKS bool observer_thread_is_still(const struct observer_thread *thread, uint32_t use) {
  return observer_thread_is_live(thread) && observer_thread_use(thread) == use;
}

/* Keeps THREAD's entry from reuse until observer_thread_let_go. Returns false if the thread has exited.
 * Async-signal-safe: yes. Threads: the watchdog's observing threads. */
CLINUX_NO_LOCKS bool observer_thread_hold(struct observer_thread *thread);
CLINUX_NO_LOCKS void observer_thread_let_go(struct observer_thread *thread);

/* Whether the thread of the held entry THREAD still exists. A thread that called exit(2) directly has run no exit hook,
 * and its ID might be reused. Async-signal-safe: yes. Threads: the watchdog's observing threads. */
CLINUX_NO_LOCKS bool observer_thread_remains(const struct observer_thread *thread);

/* Whether observer_thread_remains can detect that another thread has reused THREAD's ID: THREAD has a `self_address`,
 * or the clock tick of its registration is over. Async-signal-safe: yes. Threads: the watchdog's observing threads. */
CLINUX_NO_LOCKS bool observer_thread_may_be_another(const struct observer_thread *thread);

/* Whether unregistered thread TID can run our handler: the C library created it, and its stack is not small. True if
 * the C library does not describe its threads. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS bool observer_thread_can_answer(int32_t tid);

/* Returns the entry of the registered thread TID, or NULL. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct observer_thread *observer_thread_find(int32_t tid);

#endif
