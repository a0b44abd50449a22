/* The owner of the lock that a blocked thread waits for, from the words around the futex of its system call.
 *
 * The kind of lock is recognized by the system call and the lock's words. Unrelated words can match accidentally, so
 * symbolization checks the function in which the thread waits. */
#ifndef OBSERVER_LOCK_H
#define OBSERVER_LOCK_H

#include "base/observer_base.h"

enum observer_lock_kind {
  OBSERVER_LOCK_NONE = 0,
  OBSERVER_LOCK_WORD = 1,   /* FUTEX_LOCK_PI, with the owner's ID: Swift's Mutex and swift_once */
  OBSERVER_LOCK_MUTEX = 2,  /* pthread_mutex_t */
  OBSERVER_LOCK_RWLOCK = 3, /* locked for writing */
  OBSERVER_LOCK_THREAD = 4, /* pthread_join(3) */
  OBSERVER_LOCK_QUEUE = 5,  /* dispatch_sync, while the queue runs an item */
  OBSERVER_LOCK_STREAM = 6, /* flockfile(3) and its callers */
};

struct observer_lock {
  uint32_t kind; /* enum observer_lock_kind */
  int32_t holder;
  uint64_t address; /* of the lock, the joined thread's word, or the queue */
  bool is_orphaned; /* the owner has ended */
  bool is_timed;
  bool is_queues; /* might be a queue: the owner's offset is not known yet */
};

/* A chain of threads, each waiting for the next. */
enum { OBSERVER_LOCK_CHAIN_MAX = 8 };
struct observer_lock_chain {
  uint32_t count;
  int32_t tids[OBSERVER_LOCK_CHAIN_MAX];
};

/* Returns false if CHAIN contains TID or is full. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool observer_lock_chain_add(struct observer_lock_chain *chain, int32_t tid);

/* Earliest times of lock owners' next samples. */
enum { OBSERVER_HOLDERS_MAX = 64 };
struct observer_holders {
  int32_t tids[OBSERVER_HOLDERS_MAX];
  uint64_t next_ns[OBSERVER_HOLDERS_MAX];
};

/* Whether lock owner TID can be sampled at NOW_NS, at least a millisecond after its last sample. If so, records NOW_NS.
 * Async-signal-safe: yes. Threads: the sampler that owns HOLDERS. */
CLINUX_NO_LOCKS bool observer_holders_take(struct observer_holders *holders, int32_t tid, uint64_t now_ns);

/* Delays the next sample of TID, which has not answered. Async-signal-safe: yes. Threads: the sampler that owns
 * HOLDERS. */
CLINUX_NO_LOCKS void observer_holders_rest(struct observer_holders *holders, int32_t tid, uint64_t now_ns);

/* Sets the byte offsets of the running thread's ID and of the target queue (0: unknown) in libdispatch's queues.
 * Async-signal-safe: yes. Threads: any, once. */
void observer_lock_know_queues(uint32_t owner_offset, uint32_t target_offset);

/* Checks the expected offset of the ID in glibc's struct pthread, which is needed to find the owners of streams.
 * Async-signal-safe: no. Threads: any. */
void observer_lock_know_threads(void);

/* Finds the owned lock for which thread TID waits in CALL with ARGUMENTS; OBSERVER_LOCK_NONE: none. Async-signal-safe:
 * yes. Threads: any that can read memory. */
CLINUX_NO_LOCKS void observer_lock_find(int32_t tid, int64_t call, const uint64_t arguments[6],
                                        struct observer_lock *lock);

/* Returns the current owner of LOCK; 0: none or unreadable. Async-signal-safe: yes. Threads: as observer_lock_find. */
CLINUX_NO_LOCKS int32_t observer_lock_holder(const struct observer_lock *lock);

#endif
