/* Who holds what a blocked thread waits for: the words around the futex of its system call, and what they say.
 *
 * Locks are told apart by the system call's operation and values and by what their words hold; what looks like one is
 * believed only where the holder is a thread of this process. A word may look like that by chance: which function the
 * thread waits in is for who knows names to check.
 */
#ifndef OBSERVER_LOCK_H
#define OBSERVER_LOCK_H

#include "observer_base.h"

enum observer_lock_kind {
  OBSERVER_LOCK_NONE = 0,
  OBSERVER_LOCK_WORD = 1,   /* a word with the holder's id (FUTEX_LOCK_PI): Mutex and swift_once of Swift's */
  OBSERVER_LOCK_MUTEX = 2,  /* pthread_mutex_t */
  OBSERVER_LOCK_RWLOCK = 3, /* pthread_rwlock_t that somebody writes under */
  OBSERVER_LOCK_THREAD = 4, /* the end of a thread: pthread_join(3) */
  OBSERVER_LOCK_QUEUE = 5,  /* a queue of libdispatch's, of which somebody runs something: dispatch_sync */
  OBSERVER_LOCK_STREAM = 6, /* a FILE of the C library's: flockfile(3), and what calls it */
};

struct observer_lock {
  uint32_t kind;    /* enum observer_lock_kind */
  int32_t holder;   /* the thread; 0: none that is known */
  uint64_t address; /* of the lock, of the word in the joined thread's descriptor, or of the queue */
  bool is_orphaned; /* the holder has ended */
  bool is_timed;    /* the wait ends by itself */
  bool is_queues;   /* it may be a queue: where those have their owner is not known yet */
};

/* Threads that wait for each other, the first one for the second. */
enum { OBSERVER_LOCK_CHAIN_MAX = 8 };
struct observer_lock_chain {
  uint32_t count;
  int32_t tids[OBSERVER_LOCK_CHAIN_MAX];
};

/* Adds TID to CHAIN. Returns false, having done nothing, where it is in it, or the chain is full. Async-signal-safe:
 * yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_lock_chain_add(struct observer_lock_chain *chain, int32_t tid);

/* Threads that were looked at as holders, and when each may be looked at again: many may wait for the same one. */
enum { OBSERVER_HOLDERS_MAX = 64 };
struct observer_holders {
  int32_t tids[OBSERVER_HOLDERS_MAX];
  uint64_t next_ns[OBSERVER_HOLDERS_MAX];
};

/* Whether thread TID may be looked at now, at NOW_NS: not within a millisecond of the last time. Of two threads that
 * have the same place here one makes room. Async-signal-safe: yes. Threads: the sampler whose HOLDERS it is. */
CLINUX_NO_LOCKS bool observer_holders_take(struct observer_holders *holders, int32_t tid, uint64_t now_ns);

/* Notes that TID has not answered: it is left alone for a while. Async-signal-safe: yes. Threads: the same. */
CLINUX_NO_LOCKS void observer_holders_rest(struct observer_holders *holders, int32_t tid, uint64_t now_ns);

/* Says where libdispatch's queues have the id of who runs something of them, and their target, in bytes from their
 * beginning, for good; TARGET_OFFSET is 0 where that is not known. Async-signal-safe: yes. Threads: any, once. */
void observer_lock_know_queues(uint32_t owner_offset, uint32_t target_offset);

/* Finds out where a thread's descriptor has the kernel's id of the thread, and whether that is so here. Without it
 * nobody holds a stream. Async-signal-safe: no. Threads: any. */
void observer_lock_know_threads(void);

/* Finds what thread TID, which is blocked in CALL with ARGUMENTS, waits for that a thread holds. Its kind is
 * OBSERVER_LOCK_NONE where that is nothing, or nobody. Async-signal-safe: yes. Threads: any that may read memory. */
CLINUX_NO_LOCKS void observer_lock_find(int32_t tid, int64_t call, const uint64_t arguments[6],
                                        struct observer_lock *lock);

/* Who holds LOCK now; 0: nobody, or that cannot be read. Async-signal-safe: yes. Threads: as observer_lock_find. */
CLINUX_NO_LOCKS int32_t observer_lock_holder(const struct observer_lock *lock);

#endif
