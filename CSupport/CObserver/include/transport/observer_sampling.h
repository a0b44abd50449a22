/* State shared by the monitor, which keeps the time, and the samplers, which sample stacks.
 *
 * The monitor never waits for a sampler, and reads no memory whose reading could block. A spare sampler replaces a
 * sampler that the kernel blocks. All samplers are created at the start, because creation allocates. */
#ifndef OBSERVER_SAMPLING_H
#define OBSERVER_SAMPLING_H

#include "base/observer_base.h"
#include "clinux_context.h"
#include "clinux_wait.h"

#define OBSERVER_SAMPLERS_MAX (CLINUX_CONTEXTS_MAX - 1)

/* The work item followed in a slot, and the requested samples. */
struct observer_work {
  /* Written by the monitor. */
  _Atomic uint64_t item; /* 0: none; written last */
  _Atomic uint32_t generation;
  _Atomic uint32_t wanted;
  _Atomic uint64_t age_ns; /* at tick_ns */
  _Atomic uint64_t gap_ns;
  _Atomic uint64_t tick_ns;
  _Atomic uint64_t avoided; /* work item that blocked a sampler: not read again */
  /* Written by the active sampler. */
  _Atomic uint32_t taken;     /* value of `wanted` that was served last */
  _Atomic int32_t tid;        /* the thread seen working */
  _Atomic uint64_t seen_item; /* of `tid` */
  _Atomic uint64_t lost;
  _Atomic uint64_t lost_item;   /* of `lost` */
  _Atomic uint64_t shared_ns;   /* when another slot's sample last served this slot */
  _Atomic uint64_t shared_item; /* of `shared_ns` */
};

struct observer_work_snapshot {
  uint64_t item; /* 0: none, or changed during the read */
  uint32_t generation;
  uint64_t age_ns, gap_ns, tick_ns;
};

enum observer_sampler_state {
  OBSERVER_SAMPLER_ABSENT = 0, /* not created, or ended */
  OBSERVER_SAMPLER_SPARE = 1,
  OBSERVER_SAMPLER_ACTIVE = 2,
  OBSERVER_SAMPLER_HELD_UP = 3, /* blocked and replaced; becomes spare when no longer blocked */
};

struct observer_sampler {
  _Atomic uint32_t state; /* enum observer_sampler_state */
  _Atomic uint32_t wake;
  _Atomic uint32_t steps; /* odd during a step that might block */
  _Atomic int32_t slot;   /* -1: none */
  _Atomic int32_t target; /* thread being read; 0: none */
  _Atomic int32_t tid;    /* the sampler's own thread */
};

struct observer_sampling {
  struct observer_work *work; /* OBSERVER_SLOTS_MAX entries */
  struct observer_sampler samplers[OBSERVER_SAMPLERS_MAX];
  _Atomic uint32_t stop;
  _Atomic uint32_t stalls_declared;  /* each requests a capture of all threads */
  _Atomic uint32_t captures_begun;   /* number of the last capture */
  _Atomic uint32_t capture_open;     /* number of the current capture; 0: none */
  _Atomic uint32_t capture_stalls;   /* `stalls_declared` served by the last capture */
  _Atomic uint32_t capture_requests; /* last explicit request served by a capture */
  _Atomic uint32_t is_sparing;       /* 1: the CPU budget is exhausted */
  _Atomic uint64_t spared;
  _Atomic uint32_t budget;                             /* in percent of one CPU */
  _Atomic int32_t avoided_tids[OBSERVER_SAMPLERS_MAX]; /* threads whose stacks blocked a sampler */
};

/* Async-signal-safe: no. Threads: any. */
struct observer_sampling *observer_sampling_create(void);
void observer_sampling_destroy(struct observer_sampling *sampling);

/* Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS void observer_work_follow(struct observer_work *work, struct observer_work_snapshot view);

/* Stops following a work item in WORK. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_work_leave(struct observer_work *work) {
  if (__builtin_expect(atomic_load_explicit(&work->item, memory_order_relaxed) != 0, 0))
    atomic_store_explicit(&work->item, 0, memory_order_release);
}

/* Returns the work item in WORK; 0: none. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_work_item(const struct observer_work *work) {
  return atomic_load_explicit(&work->item, memory_order_relaxed);
}

/* Reads the work item in WORK; `item` is 0 if it changes meanwhile. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct observer_work_snapshot observer_work_read(const struct observer_work *work);

/* Requests a sample of WORK. The sampler must be woken afterwards, once for all slots. Async-signal-safe: yes. Threads:
 * the monitor, the active sampler. */
static inline CLINUX_NO_LOCKS void observer_work_want(struct observer_work *work) {
  atomic_fetch_add_explicit(&work->wanted, 1, memory_order_release);
}

/* Whether a requested sample of WORK is outstanding. Async-signal-safe: yes. Threads: the monitor, the active
 * sampler. */
static inline CLINUX_NO_LOCKS bool observer_work_is_due(const struct observer_work *work) {
  return atomic_load_explicit(&work->wanted, memory_order_acquire) !=
         atomic_load_explicit(&work->taken, memory_order_relaxed);
}

/* Accepts the outstanding requests for WORK. Returns false if there are none. Async-signal-safe: yes. Threads: the
 * active sampler. */
static inline CLINUX_NO_LOCKS bool observer_work_take(struct observer_work *work) {
  uint32_t wanted = atomic_load_explicit(&work->wanted, memory_order_acquire);
  if (wanted == atomic_load_explicit(&work->taken, memory_order_relaxed))
    return false;
  atomic_store_explicit(&work->taken, wanted, memory_order_relaxed);
  return true;
}

/* Whether ITEM of WORK must not be read. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_work_is_avoided(const struct observer_work *work, uint64_t item) {
  return atomic_load_explicit(&work->avoided, memory_order_relaxed) == item;
}

/* Records that thread TID works on ITEM of WORK. Async-signal-safe: yes. Threads: the active sampler. */
static inline CLINUX_NO_LOCKS void observer_work_seen(struct observer_work *work, uint64_t item, int32_t tid) {
  atomic_store_explicit(&work->seen_item, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&work->tid, tid, memory_order_relaxed);
  atomic_store_explicit(&work->seen_item, item, memory_order_release);
}

/* Returns the thread last seen working on ITEM; 0: none. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS int32_t observer_work_tid(const struct observer_work *work, uint64_t item) {
  if (atomic_load_explicit(&work->seen_item, memory_order_acquire) != item)
    return 0;
  return atomic_load_explicit(&work->tid, memory_order_relaxed);
}

/* Records that another slot's sample has also served ITEM, at TIME_NS. Async-signal-safe: yes. Threads: the active
 * sampler. */
static inline CLINUX_NO_LOCKS void observer_work_share(struct observer_work *work, uint64_t item, uint64_t time_ns) {
  atomic_store_explicit(&work->shared_item, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&work->shared_ns, time_ns, memory_order_relaxed);
  atomic_store_explicit(&work->shared_item, item, memory_order_release);
}

/* Returns the time of observer_work_share for ITEM; 0: never. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_work_shared_ns(const struct observer_work *work, uint64_t item) {
  if (atomic_load_explicit(&work->shared_item, memory_order_acquire) != item)
    return 0;
  return atomic_load_explicit(&work->shared_ns, memory_order_relaxed);
}

/* Counts a sample of ITEM that was lost to a full ring. Async-signal-safe: yes. Threads: the active sampler. */
CLINUX_NO_LOCKS void observer_work_lose(struct observer_work *work, uint64_t item);

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_work_lost(const struct observer_work *work, uint64_t item) {
  if (atomic_load_explicit(&work->lost_item, memory_order_acquire) != item)
    return 0;
  return atomic_load_explicit(&work->lost, memory_order_relaxed);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_sampling_budget(const struct observer_sampling *sampling) {
  return atomic_load_explicit(&sampling->budget, memory_order_relaxed);
}
static inline void observer_sampling_set_budget(struct observer_sampling *sampling, uint32_t percent) {
  atomic_store_explicit(&sampling->budget, percent, memory_order_relaxed);
}

/* Async-signal-safe: yes. Threads: the active sampler. */
static inline CLINUX_NO_LOCKS void observer_sampling_set_sparing(struct observer_sampling *sampling, bool is_sparing) {
  if (atomic_load_explicit(&sampling->is_sparing, memory_order_relaxed) != is_sparing)
    atomic_store_explicit(&sampling->is_sparing, is_sparing, memory_order_relaxed);
}

/* Whether due samples are skipped because of the CPU budget. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_sampling_is_sparing(const struct observer_sampling *sampling) {
  return atomic_load_explicit(&sampling->is_sparing, memory_order_relaxed) != 0;
}

/* Counts a skipped sample. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_sampling_spare(struct observer_sampling *sampling) {
  atomic_fetch_add_explicit(&sampling->spared, 1, memory_order_relaxed);
}

/* Returns the number of skipped samples. Async-signal-safe: yes. Threads: any. */
static inline uint64_t observer_sampling_spared(const struct observer_sampling *sampling) {
  return atomic_load_explicit(&sampling->spared, memory_order_relaxed);
}

/* Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_sampling_stall_declared(struct observer_sampling *sampling) {
  atomic_fetch_add_explicit(&sampling->stalls_declared, 1, memory_order_release);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS enum observer_sampler_state
observer_sampler_state(const struct observer_sampling *sampling, uint32_t number) {
  return (enum observer_sampler_state)atomic_load_explicit(&sampling->samplers[number].state, memory_order_acquire);
}

/* Makes sampler NUMBER available, unless it is active already. Async-signal-safe: yes. Threads: sampler NUMBER. */
CLINUX_NO_LOCKS void observer_sampler_ready(struct observer_sampling *sampling, uint32_t number);

/* Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS void observer_sampler_activate(struct observer_sampling *sampling, uint32_t number);

/* Marks sampler NUMBER as blocked; its target will be avoided. Returns the slot that the sampler was reading; -1: none.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS int32_t observer_sampler_give_up(struct observer_sampling *sampling, uint32_t number);

/* Makes sampler NUMBER, no longer blocked, spare again. Async-signal-safe: yes. Threads: sampler NUMBER. */
CLINUX_NO_LOCKS void observer_sampler_come_back(struct observer_sampling *sampling, uint32_t number);

/* Async-signal-safe: yes. Threads: sampler NUMBER. */
CLINUX_NO_LOCKS void observer_sampler_end(struct observer_sampling *sampling, uint32_t number);

/* Begin and end a step that might block, for slot INDEX (-1: none) and thread TID (0: none). Async-signal-safe: yes.
 * Threads: sampler NUMBER. */
static inline CLINUX_NO_LOCKS void observer_sampler_begin_step(struct observer_sampling *sampling, uint32_t number,
                                                               int32_t index, int32_t tid) {
  struct observer_sampler *sampler = &sampling->samplers[number];
  atomic_store_explicit(&sampler->slot, index, memory_order_relaxed);
  atomic_store_explicit(&sampler->target, tid, memory_order_relaxed);
  atomic_fetch_add_explicit(&sampler->steps, 1, memory_order_release);
}
static inline CLINUX_NO_LOCKS void observer_sampler_end_step(struct observer_sampling *sampling, uint32_t number) {
  atomic_fetch_add_explicit(&sampling->samplers[number].steps, 1, memory_order_release);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_sampler_steps(const struct observer_sampling *sampling,
                                                              uint32_t number) {
  return atomic_load_explicit(&sampling->samplers[number].steps, memory_order_acquire);
}

/* Whether sampler NUMBER is neither running nor runnable. Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS bool observer_sampler_is_asleep(const struct observer_sampling *sampling, uint32_t number);

/* Whether the stack of thread TID must not be read. Async-signal-safe: yes. Threads: the active sampler. */
CLINUX_NO_LOCKS bool observer_sampling_avoids(const struct observer_sampling *sampling, int32_t tid);

/* Return the number of blocked samplers, and of all samplers. Async-signal-safe: yes. Threads: any. */
uint32_t observer_sampling_held_up(const struct observer_sampling *sampling);
uint32_t observer_sampling_count(const struct observer_sampling *sampling);

/* Async-signal-safe: yes. Threads: any. */
void observer_sampling_stop(struct observer_sampling *sampling);

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_sampling_stopping(const struct observer_sampling *sampling) {
  return atomic_load_explicit(&sampling->stop, memory_order_acquire) != 0;
}

/* Wake sampler NUMBER, return the word on which it waits, and wait until that word differs from SEEN or until
 * DEADLINE_NS. Async-signal-safe: yes. Threads: any for waking, otherwise the sampler. */
static inline CLINUX_NO_LOCKS void observer_sampler_wake(struct observer_sampling *sampling, uint32_t number) {
  clinux_notify(&sampling->samplers[number].wake);
}
static inline CLINUX_NO_LOCKS uint32_t observer_sampler_word(const struct observer_sampling *sampling,
                                                             uint32_t number) {
  return clinux_word(&sampling->samplers[number].wake);
}
static inline CLINUX_NO_LOCKS void observer_sampler_wait(const struct observer_sampling *sampling, uint32_t number,
                                                         uint32_t seen, uint64_t deadline_ns) {
  clinux_wait(&sampling->samplers[number].wake, seen, deadline_ns);
}

/* Return whether a capture of all threads is wanted: a stall or one of the REQUESTS is not served, or a blocked sampler
 * left a capture unfinished. "Urgent": the capture is wanted even without a new stall. Async-signal-safe: yes. Threads:
 * the active sampler. */
CLINUX_NO_LOCKS bool observer_capture_all_is_wanted(const struct observer_sampling *sampling, uint32_t requests);
CLINUX_NO_LOCKS bool observer_capture_all_is_urgent(const struct observer_sampling *sampling, uint32_t requests);
CLINUX_NO_LOCKS uint32_t observer_capture_all_begin(struct observer_sampling *sampling, uint32_t requests);
CLINUX_NO_LOCKS void observer_capture_all_end(struct observer_sampling *sampling, uint32_t number);

#endif
