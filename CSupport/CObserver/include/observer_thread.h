/* Threads that watched work runs on.
 *
 * A thread registers itself when it first marks work (observer_thread_current) and is deregistered by a thread-exit
 * hook. Entries live in a table that is never freed, so that a pointer to one is always readable; an entry of a thread
 * that has gone is used again for a later one, unless somebody is still looking at it.
 */
#ifndef OBSERVER_THREAD_H
#define OBSERVER_THREAD_H

#include "observer_base.h"

/* The state of an entry: bit 0, its thread is there; above, how many hold it. An entry that is neither is free. */
enum observer_thread_state {
  OBSERVER_THREAD_FREE = 0, /* no thread, or one that has left, and nobody holds what there was of it */
  OBSERVER_THREAD_LIVE = 1, /* may be signalled */
  OBSERVER_THREAD_HELD =
      2, /* one who signals it or reads its stack: the entry stays this thread's, also when it leaves meanwhile */
};

/* Whether a thread's stack has room for our signal. */
enum observer_thread_room {
  OBSERVER_ROOM_ENOUGH = 0,
  OBSERVER_ROOM_LACKING = 1, /* the thread is sent no signal */
  OBSERVER_ROOM_UNKNOWN = 2, /* the thread is not registered: observer_thread_can_answer */
};

/* One registered thread. STATE is changed by the thread itself (LIVE) and by those who hold it; the other fields are
 * written before the thread becomes LIVE and stay until the entry is used again. */
struct observer_thread {
  _Atomic uint32_t state;
  _Atomic uint32_t use; /* how often the entry has been used: tells its threads from each other, whatever their ids */
  _Atomic int32_t tid;
  _Atomic uint64_t registered_ns;     /* when, CLOCK_BOOTTIME */
  _Atomic uint64_t self_address;      /* where the thread has a pointer to this entry; 0: nowhere */
  _Atomic uint64_t stack_low;         /* lowest address of the thread's own stack, 0 if unknown */
  _Atomic uint64_t stack_high;        /* one past its highest address, 0 if unknown */
  _Atomic uint32_t room;              /* an observer_thread_room */
  uint8_t *alternate;                 /* the alternate stack that the thread was given, with its guard page, or NULL; */
  size_t alternate_bytes;             /* the thread's own, as this */
  _Atomic uint64_t kept_out_until_ns; /* until when what was seen says that the thread blocks our signal; a sampler's */
  _Atomic uint64_t let_in_ns;         /* when it was last seen not to, and to run since; a sampler's */
};

extern _Thread_local struct observer_thread *observer_thread_self;

/* Has ENDS called on each registered thread that exits, before it is deregistered. One function, the same at every
 * call. Async-signal-safe: yes. Threads: any; ENDS: the one that exits. */
void observer_thread_at_exit(void (*ends)(struct observer_thread *thread));

/* For how long a thread that was seen to wait for our signal, or not to block it, is taken to do so still. */
#define OBSERVER_MASK_KNOWN_NS UINT64_C(10000000000)

/* What our handler uses of a stack, besides the kernel's frame; a benchmark's bound, and as much again. */
#define OBSERVER_HANDLER_STACK_BYTES 2048

/* A stack of up to this size may be used up to its last KiB: it was made for just what runs on it. */
#define OBSERVER_SMALL_STACK_BYTES (256 << 10)

/* Registers the calling thread. If its stack is small and it has no alternate stack for signals, it gets one, until it
 * exits. Returns its entry, or NULL when OBSERVER_THREADS_MAX threads are registered or memory
 * for the exit hook is short: the thread's work is then seen but its stacks are not.
 * Async-signal-safe: no (locks, may allocate). Threads: any watched thread, for itself. */
struct observer_thread *observer_thread_register(void);

/* The calling thread's entry, registering it on the first call; NULL as for observer_thread_register.
 * Async-signal-safe: no. Threads: any watched thread, for itself. */
static inline struct observer_thread *observer_thread_current(void) {
  struct observer_thread *self = observer_thread_self;
  return self ? self : observer_thread_register();
}

/* Whether the thread of this entry is there, as far as it has told. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_thread_is_live(const struct observer_thread *thread) {
  return (atomic_load_explicit(&thread->state, memory_order_acquire) & OBSERVER_THREAD_LIVE) != 0;
}

/* The kernel's id of THREAD, or 0 when it has left. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS int32_t observer_thread_id(const struct observer_thread *thread) {
  return observer_thread_is_live(thread) ? atomic_load_explicit(&thread->tid, memory_order_relaxed) : 0;
}

/* The number of the use that is made of THREAD's entry, and whether it is still the same one, by a thread that has not
 * left. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_thread_use(const struct observer_thread *thread) {
  return atomic_load_explicit(&thread->use, memory_order_acquire);
}
static inline CLINUX_NO_LOCKS bool observer_thread_is_still(const struct observer_thread *thread, uint32_t use) {
  return observer_thread_is_live(thread) && observer_thread_use(thread) == use;
}

/* Keeps THREAD's entry from being used for another thread until observer_thread_let_go. Returns false, and holds
 * nothing, when the thread has left. The thread itself may leave meanwhile, and waits for nobody; several may hold it.
 * Async-signal-safe: yes. Threads: those of the watchdog that look at threads. */
CLINUX_NO_LOCKS bool observer_thread_hold(struct observer_thread *thread);
CLINUX_NO_LOCKS void observer_thread_let_go(struct observer_thread *thread);

/* Whether the thread of THREAD, which is held, is there. One that left by the bare system call ran no exit hook, and
 * its id may be another's; that one was started after THREAD was registered, and the kernel tells in which tick a
 * thread was started; where it has the memory of the one that left, it has no pointer to THREAD there.
 * Async-signal-safe: yes. Threads: those of the watchdog that look at threads. */
CLINUX_NO_LOCKS bool observer_thread_remains(const struct observer_thread *thread);

/* Whether the above can tell another thread from THREAD: not within the tick in which that was registered, unless
 * THREAD has told where its memory is. Async-signal-safe: yes. Threads: those of the watchdog that look at threads. */
CLINUX_NO_LOCKS bool observer_thread_may_be_another(const struct observer_thread *thread);

/* Whether thread TID, which is not registered, can run our handler: the C library has made it, so that it has a thread
 * pointer, and its stack is not small. True where the C library does not describe its threads.
 * Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS bool observer_thread_can_answer(int32_t tid);

/* Threads registered now. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint32_t observer_thread_count(void);

/* The entry of the registered thread TID, or NULL. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct observer_thread *observer_thread_find(int32_t tid);

#endif
