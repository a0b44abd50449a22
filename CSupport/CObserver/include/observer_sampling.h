/* What the monitor, which keeps the time, and the samplers, which take stacks, tell each other.
 *
 * The monitor never waits for a sampler, and reads nothing that one might be held up at. A sampler that the kernel
 * holds up is replaced by a spare one; all of them exist from the start, because a thread cannot be made without the
 * allocator.
 */
#ifndef OBSERVER_SAMPLING_H
#define OBSERVER_SAMPLING_H

#include "clinux_context.h"
#include "clinux_wait.h"
#include "observer_base.h"

/* The most samplers: one at work, and those that replace it. */
#define OBSERVER_SAMPLERS_MAX (CLINUX_CONTEXTS_MAX - 1)

/* The work item that is followed in a target slot, and the samples of it that are wanted. */
struct observer_work {
  /* Written by the monitor. */
  _Atomic uint64_t item; /* 0: none is followed; written last when another one is */
  _Atomic uint32_t generation;
  _Atomic uint32_t wanted;  /* how many samples have been asked for */
  _Atomic uint64_t age_ns;  /* how old it was, */
  _Atomic uint64_t gap_ns;  /* and how much of its time was not counted, */
  _Atomic uint64_t tick_ns; /* at this time */
  _Atomic uint64_t avoided; /* the work item whose stack has held up a sampler: it is not read again */
  /* Written by the sampler at work. */
  _Atomic uint32_t taken;       /* the value of `wanted` that was served last */
  _Atomic int32_t tid;          /* who was seen to work */
  _Atomic uint64_t seen_item;   /* on this work item */
  _Atomic uint64_t lost;        /* samples that found no room in the ring */
  _Atomic uint64_t lost_item;   /* of this work item */
  _Atomic uint64_t shared_ns;   /* when a look for another slot's work item last served */
  _Atomic uint64_t shared_item; /* this work item, too */
};

/* The state of a work item at a tick. */
struct observer_work_snapshot {
  uint64_t item; /* 0: none, or another one since */
  uint32_t generation;
  uint64_t age_ns, gap_ns, tick_ns;
};

enum observer_sampler_state {
  OBSERVER_SAMPLER_ABSENT = 0, /* its thread could not be made, or has ended */
  OBSERVER_SAMPLER_SPARE = 1,
  OBSERVER_SAMPLER_ACTIVE = 2,
  OBSERVER_SAMPLER_HELD_UP = 3, /* replaced; spare again when it comes back */
};

/* One sampler. */
struct observer_sampler {
  _Atomic uint32_t state; /* enum observer_sampler_state */
  _Atomic uint32_t wake;
  _Atomic uint32_t steps; /* odd while it does what may hold it up; changes with each such step */
  _Atomic int32_t slot;   /* the slot that the step is about, -1 for none */
  _Atomic int32_t target; /* the thread that is being read, 0 for none */
  _Atomic int32_t tid;    /* its own */
};

/* All of it. */
struct observer_sampling {
  struct observer_work *work; /* OBSERVER_SLOTS_MAX entries, zero-filled, resident only as far as it is used */
  struct observer_sampler samplers[OBSERVER_SAMPLERS_MAX];
  _Atomic uint32_t stop;
  _Atomic uint32_t stalls_declared;  /* each wants a capture of all threads */
  _Atomic uint32_t captures_begun;   /* of all threads: the number of the last one */
  _Atomic uint32_t capture_open;     /* the number of the one under way, 0 for none */
  _Atomic uint32_t capture_stalls;   /* the value of `stalls_declared` that the last one has served, */
  _Atomic uint32_t capture_requests; /* and that of the requests by others */
  _Atomic uint32_t is_sparing;       /* 1: the sampler at work leaves due samples for want of processor time */
  _Atomic uint64_t spared;           /* samples that were not taken for that reason, of all work items */
  _Atomic uint32_t budget;           /* the processor time that all threads may take, in percent of one processor */
  _Atomic int32_t avoided_tids[OBSERVER_SAMPLERS_MAX]; /* threads whose stacks have held up a sampler */
  _Atomic uint32_t replaced;                           /* how often one was replaced */
};

/* Makes one, and frees it. Async-signal-safe: no. Threads: any. */
struct observer_sampling *observer_sampling_create(void);
void observer_sampling_destroy(struct observer_sampling *sampling);

/* Says what is followed in slot INDEX. Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS void observer_work_follow(struct observer_sampling *sampling, uint32_t index,
                                          struct observer_work_snapshot view);

/* Says that nothing is. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_work_leave(struct observer_sampling *sampling, uint32_t index) {
  if (__builtin_expect(atomic_load_explicit(&sampling->work[index].item, memory_order_relaxed) != 0, 0))
    atomic_store_explicit(&sampling->work[index].item, 0, memory_order_release);
}

/* Whether something is. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_work_is_followed(const struct observer_sampling *sampling, uint32_t index) {
  return atomic_load_explicit(&sampling->work[index].item, memory_order_relaxed) != 0;
}

/* The work item that is followed in slot INDEX; 0 for none. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_work_item(const struct observer_sampling *sampling, uint32_t index) {
  return atomic_load_explicit(&sampling->work[index].item, memory_order_relaxed);
}

/* That; its work item is 0 when it changes meanwhile. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct observer_work_snapshot observer_work_read(const struct observer_sampling *sampling,
                                                                 uint32_t index);

/* Asks for a sample of slot INDEX. The sampler is to be woken afterwards, once for all slots; it asks itself for what
 * it puts off. Async-signal-safe: yes. Threads: the monitor, the sampler at work. */
static inline CLINUX_NO_LOCKS void observer_work_want(struct observer_sampling *sampling, uint32_t index) {
  atomic_fetch_add_explicit(&sampling->work[index].wanted, 1, memory_order_release);
}

/* Whether a sample of slot INDEX has been asked for and not taken up.
 * Async-signal-safe: yes. Threads: the monitor, the sampler at work. */
static inline CLINUX_NO_LOCKS bool observer_work_is_due(const struct observer_sampling *sampling, uint32_t index) {
  return atomic_load_explicit(&sampling->work[index].wanted, memory_order_acquire) !=
         atomic_load_explicit(&sampling->work[index].taken, memory_order_relaxed);
}

/* Takes up what has been asked for of slot INDEX. Returns whether there was anything.
 * Async-signal-safe: yes. Threads: the sampler at work. */
static inline CLINUX_NO_LOCKS bool observer_work_take(struct observer_sampling *sampling, uint32_t index) {
  uint32_t wanted = atomic_load_explicit(&sampling->work[index].wanted, memory_order_acquire);
  if (wanted == atomic_load_explicit(&sampling->work[index].taken, memory_order_relaxed))
    return false;
  atomic_store_explicit(&sampling->work[index].taken, wanted, memory_order_relaxed);
  return true;
}

/* Whether ITEM of slot INDEX must not be read. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_work_is_avoided(const struct observer_sampling *sampling, uint32_t index,
                                                            uint64_t item) {
  return atomic_load_explicit(&sampling->work[index].avoided, memory_order_relaxed) == item;
}

/* Notes that thread TID works on ITEM of slot INDEX. Async-signal-safe: yes. Threads: the sampler at work. */
static inline CLINUX_NO_LOCKS void observer_work_seen(struct observer_sampling *sampling, uint32_t index, uint64_t item,
                                                      int32_t tid) {
  atomic_store_explicit(&sampling->work[index].seen_item, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&sampling->work[index].tid, tid, memory_order_relaxed);
  atomic_store_explicit(&sampling->work[index].seen_item, item, memory_order_release);
}

/* Who was seen to work on ITEM of slot INDEX last; 0 if nobody was. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS int32_t observer_work_tid(const struct observer_sampling *sampling, uint32_t index,
                                                        uint64_t item) {
  if (atomic_load_explicit(&sampling->work[index].seen_item, memory_order_acquire) != item)
    return 0;
  return atomic_load_explicit(&sampling->work[index].tid, memory_order_relaxed);
}

/* Notes that a look for another slot's work item has served ITEM of slot INDEX, too, at TIME_NS.
 * Async-signal-safe: yes. Threads: the sampler at work. */
static inline CLINUX_NO_LOCKS void observer_work_share(struct observer_sampling *sampling, uint32_t index,
                                                       uint64_t item, uint64_t time_ns) {
  atomic_store_explicit(&sampling->work[index].shared_item, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&sampling->work[index].shared_ns, time_ns, memory_order_relaxed);
  atomic_store_explicit(&sampling->work[index].shared_item, item, memory_order_release);
}

/* When one last did; 0: never. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_work_shared_ns(const struct observer_sampling *sampling, uint32_t index,
                                                               uint64_t item) {
  if (atomic_load_explicit(&sampling->work[index].shared_item, memory_order_acquire) != item)
    return 0;
  return atomic_load_explicit(&sampling->work[index].shared_ns, memory_order_relaxed);
}

/* Counts a sample of ITEM that found no room. Async-signal-safe: yes. Threads: the sampler at work. */
CLINUX_NO_LOCKS void observer_work_lose(struct observer_sampling *sampling, uint32_t index, uint64_t item);

/* How many of ITEM did not. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_work_lost(const struct observer_sampling *sampling, uint32_t index,
                                                          uint64_t item) {
  if (atomic_load_explicit(&sampling->work[index].lost_item, memory_order_acquire) != item)
    return 0;
  return atomic_load_explicit(&sampling->work[index].lost, memory_order_relaxed);
}

/* The samplers' processor budget in percent of one processor. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_sampling_budget(const struct observer_sampling *sampling) {
  return atomic_load_explicit(&sampling->budget, memory_order_relaxed);
}
static inline void observer_sampling_set_budget(struct observer_sampling *sampling, uint32_t percent) {
  atomic_store_explicit(&sampling->budget, percent, memory_order_relaxed);
}

/* Sets whether due samples are left for want of processor time. Async-signal-safe: yes. Threads: the sampler at work.
 */
static inline CLINUX_NO_LOCKS void observer_sampling_set_sparing(struct observer_sampling *sampling, bool is_sparing) {
  if (atomic_load_explicit(&sampling->is_sparing, memory_order_relaxed) != is_sparing)
    atomic_store_explicit(&sampling->is_sparing, is_sparing, memory_order_relaxed);
}

/* Whether due samples are left for want of processor time. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_sampling_is_sparing(const struct observer_sampling *sampling) {
  return atomic_load_explicit(&sampling->is_sparing, memory_order_relaxed) != 0;
}

/* Counts a sample that was not taken for want of processor time. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_sampling_spare(struct observer_sampling *sampling) {
  atomic_fetch_add_explicit(&sampling->spared, 1, memory_order_relaxed);
}

/* The number of samples that were not taken for want of processor time. Async-signal-safe: yes. Threads: any. */
static inline uint64_t observer_sampling_spared(const struct observer_sampling *sampling) {
  return atomic_load_explicit(&sampling->spared, memory_order_relaxed);
}

/* Another stall has been declared. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_sampling_stall_declared(struct observer_sampling *sampling) {
  atomic_fetch_add_explicit(&sampling->stalls_declared, 1, memory_order_release);
}

/* The states of sampler NUMBER. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS enum observer_sampler_state
observer_sampler_state(const struct observer_sampling *sampling, uint32_t number) {
  return (enum observer_sampler_state)atomic_load_explicit(&sampling->samplers[number].state, memory_order_acquire);
}

/* Sampler NUMBER, the calling thread, is ready: it may be put to work from now on. One that has been already stays at
 * work. Async-signal-safe: yes. Threads: that sampler. */
CLINUX_NO_LOCKS void observer_sampler_ready(struct observer_sampling *sampling, uint32_t number);

/* Makes sampler NUMBER the one at work. Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS void observer_sampler_activate(struct observer_sampling *sampling, uint32_t number);

/* Replaces sampler NUMBER: what it was reading is avoided from now on. Returns the slot that it was about, -1 for none.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS int32_t observer_sampler_give_up(struct observer_sampling *sampling, uint32_t number);

/* Sampler NUMBER, the calling thread, comes back: it is a spare one again. Async-signal-safe: yes. Threads: that
 * sampler. */
CLINUX_NO_LOCKS void observer_sampler_come_back(struct observer_sampling *sampling, uint32_t number);

/* Sampler NUMBER, the calling thread, ends. Async-signal-safe: yes. Threads: that sampler. */
CLINUX_NO_LOCKS void observer_sampler_end(struct observer_sampling *sampling, uint32_t number);

/* Begins and ends a step of sampler NUMBER that may hold it up, about slot INDEX (-1: none) and thread TID (0: none).
 * Async-signal-safe: yes. Threads: that sampler. */
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

/* The count of sampler NUMBER's steps; odd while it is in one. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_sampler_steps(const struct observer_sampling *sampling,
                                                              uint32_t number) {
  return atomic_load_explicit(&sampling->samplers[number].steps, memory_order_acquire);
}

/* Whether the kernel says that sampler NUMBER neither runs nor waits for a processor.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS bool observer_sampler_is_asleep(const struct observer_sampling *sampling, uint32_t number);

/* Whether stacks of thread TID must not be read. Async-signal-safe: yes. Threads: the sampler at work. */
CLINUX_NO_LOCKS bool observer_sampling_avoids(const struct observer_sampling *sampling, int32_t tid);

/* How many samplers are held up, how many there are, and whether one is at work.
 * Async-signal-safe: yes. Threads: any. */
uint32_t observer_sampling_held_up(const struct observer_sampling *sampling);
uint32_t observer_sampling_count(const struct observer_sampling *sampling);
CLINUX_NO_LOCKS bool observer_sampling_is_at_work(const struct observer_sampling *sampling);

/* Makes every sampler end. Async-signal-safe: yes. Threads: any. */
void observer_sampling_stop(struct observer_sampling *sampling);

/* Whether they are to end. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS bool observer_sampling_stopping(const struct observer_sampling *sampling) {
  return atomic_load_explicit(&sampling->stop, memory_order_acquire) != 0;
}

/* Wakes sampler NUMBER; the word that it waits on; waits on it until DEADLINE_NS or until it is no longer SEEN.
 * Async-signal-safe: yes. Threads: any; the sampler; the sampler. */
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

/* A capture of all threads: whether stalls or REQUESTS by others want one that none has served, or one has been left
 * unfinished by a sampler that was given up; whether that is so without any new stall; its beginning, which returns its
 * number; its end. Async-signal-safe: yes. Threads: the sampler at work. */
CLINUX_NO_LOCKS bool observer_capture_all_is_wanted(const struct observer_sampling *sampling, uint32_t requests);
CLINUX_NO_LOCKS bool observer_capture_all_is_urgent(const struct observer_sampling *sampling, uint32_t requests);
CLINUX_NO_LOCKS uint32_t observer_capture_all_begin(struct observer_sampling *sampling, uint32_t requests);
CLINUX_NO_LOCKS void observer_capture_all_end(struct observer_sampling *sampling, uint32_t number);

#endif
