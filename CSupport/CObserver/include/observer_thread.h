/* Threads that watched work runs on.
 *
 * A thread registers itself when it first marks work (observer_thread_current) and is deregistered by a thread-exit
 * hook. Entries are in a table that is never freed, so a pointer to one is always readable. The entry of an exited
 * thread is reused for a later one, unless it is held. */
#ifndef OBSERVER_THREAD_H
#define OBSERVER_THREAD_H

#include "observer_base.h"

#include <signal.h>

/* The state of an entry: bit 0: its thread is registered; above: number of holders. The entry is free if both are 0. */
enum observer_thread_state {
  OBSERVER_THREAD_FREE = 0, /* no thread, or an exited one, and no holders */
  OBSERVER_THREAD_LIVE = 1, /* the thread can be signalled */
  OBSERVER_THREAD_HELD =
      2, /* one holder, which signals the thread or reads its stack: the entry is not reused, even after exit */
};

/* Whether a thread's stack has room for our signal. */
enum observer_thread_room {
  OBSERVER_ROOM_ENOUGH = 0,
  OBSERVER_ROOM_LACKING = 1, /* the thread is sent no signal */
  OBSERVER_ROOM_UNKNOWN = 2, /* the thread is not registered: see observer_thread_can_answer */
};

/* One registered thread. STATE is changed by the thread itself (LIVE) and by holders; the other fields are written
 * before the thread becomes LIVE and stay until the entry is reused. */
struct observer_thread {
  _Atomic uint32_t state;
  _Atomic uint32_t use; /* number of uses of the entry: distinguishes its threads even if their IDs are equal */
  _Atomic int32_t tid;
  _Atomic uint64_t registered_ns; /* time of registration, CLOCK_BOOTTIME */
  _Atomic uint64_t self_address;  /* address of the thread's pointer to this entry; 0: none */
  _Atomic uint64_t stack_low;     /* lowest address of the thread's own stack, 0 if unknown */
  _Atomic uint64_t stack_high;    /* one past its highest address, 0 if unknown */
  _Atomic uint32_t room;          /* an observer_thread_room */
  uint8_t *alternate;     /* alternate stack given to the thread, including its guard page, or NULL; thread-owned */
  size_t alternate_bytes; /* its size; thread-owned */
  _Atomic uint64_t kept_out_until_ns; /* until then the thread is assumed to block our signal; 0: was never seen
                                       * blocking it; sampler-owned */
  _Atomic uint64_t let_in_ns;         /* when it was last seen not blocking it, after running; sampler-owned */
};

extern _Thread_local struct observer_thread *observer_thread_self;

/* Sets the function ENDS, which is called on each registered thread that exits, before it is deregistered. Must be the
 * same at every call. Async-signal-safe: yes. Threads: any; ENDS: the exiting one. */
void observer_thread_at_exit(void (*ends)(struct observer_thread *thread));

/* The signal for stack captures: see observer_capture.h. */
#define OBSERVER_SIGNAL SIGPROF

/* For this time a thread that was seen waiting for our signal, or not blocking it, is assumed to do so still. */
#define OBSERVER_MASK_KNOWN_NS UINT64_C(10000000000)

/* Stack use of our handler without the kernel's frame: twice the bound in a benchmark. */
#define OBSERVER_HANDLER_STACK_BYTES 2048

/* Stacks up to this size can be in use up to the last KiB, because they are sized for their purpose. */
#define OBSERVER_SMALL_STACK_BYTES (256 << 10)

/* Registers the calling thread. If its stack is small and it has no alternate signal stack, it gets one until it exits.
 * Returns its entry, or NULL if OBSERVER_THREADS_MAX threads are registered or there is no memory for the exit hook:
 * the thread's work is then observed but its stacks are not. Async-signal-safe: no (locks, can allocate). Threads: any
 * watched thread, for itself. */
struct observer_thread *observer_thread_register(void);

/* Returns the calling thread's entry, registering it on the first call; NULL as for observer_thread_register.
 * Async-signal-safe: no. Threads: any watched thread, for itself. */
static inline struct observer_thread *observer_thread_current(void) {
  struct observer_thread *self = observer_thread_self;
  return self ? self : observer_thread_register();
}

/* Whether this entry's thread is registered. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_thread_is_live(const struct observer_thread *thread) {
  return (atomic_load_explicit(&thread->state, memory_order_acquire) & OBSERVER_THREAD_LIVE) != 0;
}

/* Returns the kernel's ID of THREAD, or 0 if it has exited. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS int32_t observer_thread_id(const struct observer_thread *thread) {
  return observer_thread_is_live(thread) ? atomic_load_explicit(&thread->tid, memory_order_relaxed) : 0;
}

/* Return the use number of THREAD's entry, and whether the entry still has that use and its thread has not exited.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_thread_use(const struct observer_thread *thread) {
  return atomic_load_explicit(&thread->use, memory_order_acquire);
}
static inline CLINUX_NO_LOCKS bool observer_thread_is_still(const struct observer_thread *thread, uint32_t use) {
  return observer_thread_is_live(thread) && observer_thread_use(thread) == use;
}

/* Holds THREAD's entry: it is not reused until observer_thread_let_go. Returns false without any effect if the thread
 * has exited. The thread itself can exit meanwhile without waiting; several threads can hold an entry.
 * Async-signal-safe: yes. Threads: the watchdog's observing threads. */
CLINUX_NO_LOCKS bool observer_thread_hold(struct observer_thread *thread);
CLINUX_NO_LOCKS void observer_thread_let_go(struct observer_thread *thread);

/* Whether the thread of THREAD, which is held, still exists. A thread that ended by the bare system call has run no
 * exit hook, and its ID might be reused. The new thread was started after THREAD was registered, and the kernel reports
 * the tick of a thread's start. If it reuses the memory of the old thread, it has no pointer to THREAD there.
 * Async-signal-safe: yes. Threads: the watchdog's observing threads. */
CLINUX_NO_LOCKS bool observer_thread_remains(const struct observer_thread *thread);

/* Whether observer_thread_remains can distinguish another thread from THREAD: not within the tick in which THREAD was
 * registered, unless the address of its memory is known. Async-signal-safe: yes. Threads: the watchdog's observing
 * threads. */
CLINUX_NO_LOCKS bool observer_thread_may_be_another(const struct observer_thread *thread);

/* Whether unregistered thread TID can run our handler: the C library created it, so it has a thread pointer, and its
 * stack is not small. True if the C library does not describe its threads. Async-signal-safe: yes. Threads: a sampler,
 * in its own context. */
CLINUX_NO_LOCKS bool observer_thread_can_answer(int32_t tid);

/* Returns the entry of the registered thread TID, or NULL. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct observer_thread *observer_thread_find(int32_t tid);

#endif
