/* Target slots: which thread works on what since when.
 *
 * A slot belongs to one watched loop or section. The watched thread marks the begin of a work item with two stores and
 * its end with one load and one store. It makes no system call and takes no lock, except that the first mark of a
 * thread registers it (observer_thread.h). The monitor reads the slots on its tick. Slots are in one table that is
 * never freed: a slot that is still marked after the watchdog has stopped does no harm.
 *
 * A work item is identified by the time of its begin. With a long threshold that time is coarse, which is cheaper but
 * can lag (clinux_clock_coarse_error_ns). Two work items that begin within one kernel tick then have the same identity,
 * which is harmless because the lag is longer. With a short threshold (observer_slot_needs_exact) the time is exact.
 * The last bit of the identity, OBSERVER_COARSE, distinguishes the two. */
#ifndef OBSERVER_SLOT_H
#define OBSERVER_SLOT_H

#include "clinux_clock.h"
#include "observer_base.h"
#include "observer_exempt.h"
#include "observer_owners.h"
#include "observer_thread.h"

/* began_ns of a slot whose thread is not working. */
#define OBSERVER_IDLE UINT64_C(0)

/* Set in a coarse begin time, clear in an exact one. The time loses one nanosecond. */
#define OBSERVER_COARSE UINT64_C(1)

/* A threshold is short if it is less than this multiple of the coarse clock's lag (clinux_clock_coarse_error_ns): one
 * second with 250 kernel ticks per second. */
#define OBSERVER_SHORT_IN_ERRORS UINT64_C(125)

/* Maximum length of a label, in words of eight bytes. */
enum { OBSERVER_LABEL_WORDS = 7 };

struct observer_slot {
  /* Written by the watched thread, read by the monitor. */
  _Atomic uint64_t began_ns; /* begin of the current work item, coarse or exact; OBSERVER_IDLE between work items */
  struct observer_thread *_Atomic thread; /* the working thread; NULL if it could not be registered */

  /* Set by the monitor to the work item that it has begun to sample, cleared at that work item's end. Makes the watched
   * thread record an exact time for this end. */
  _Atomic uint64_t end_time_wanted;
  _Atomic uint64_t ended_ns;            /* exact end of the work item `ended_item` */
  _Atomic uint64_t ended_item;          /* the last work item whose end was timed */
  _Atomic int64_t ended_exempt_ns;      /* exempt time at that end */
  _Atomic uint32_t end_time_generation; /* owner of the last requested end time */
  _Atomic uint32_t ended_generation;    /* owner of `ended_item` */
  _Atomic uint32_t exact_begins;        /* 1: begins need an exact time; written by the Swift layer with the limits */

  /* Written by the Swift layer while the slot is not marked, read by the monitor. */
  _Atomic uint32_t owner_kind; /* enum observer_owner_kind */
  _Atomic uint32_t generation; /* changes whenever the slot gets a new owner; 0: never owned */
  _Atomic uint32_t polled; /* 1: turns of a loop, which begin without notifying the monitor and end with their thread;
                              the monitor must read the slot often enough */
  _Atomic uint64_t suspicion_ns;       /* age at which sampling begins */
  _Atomic uint64_t threshold_ns;       /* age at which the work item is a stall */
  _Atomic uint64_t early_interval_ns;  /* time between samples before the threshold */
  _Atomic uint64_t interval_ns;        /* time between samples after it */
  _Atomic uint64_t owner;              /* union observer_owner */
  _Atomic uint64_t queue_head_address; /* of a word that changes when waiting work is started; 0: none */
  _Atomic uint64_t unwatched_ns;       /* age of the work item when its watch began */

  /* Written by the owner, read by the monitor: the owner's text about the work item. The state, from the top: the
   * owner's generation, 32 bits; number of changes to the label, 24 bits, odd during a change; length in bytes. */
  _Atomic uint64_t label_state;
  _Atomic uint64_t label[OBSERVER_LABEL_WORDS];

  /* Written by the owner, read by the monitor: exempt scopes. */
  struct observer_exemption exemption;

  /* Written by the thread that marks the slot, read by the monitor: 1: the work item is not a stall for now at any
   * age. */
  _Atomic uint32_t deferred;

  /* Written by the Swift layer while the slot is not marked, read by the monitor. */
  _Atomic uint32_t owner_task_id; /* the ID of owner.task */
  uint64_t unused[5];
};

_Static_assert(sizeof(struct observer_slot) == 256 && offsetof(struct observer_slot, generation) == 64 &&
                   offsetof(struct observer_slot, label_state) == 128 &&
                   offsetof(struct observer_slot, exemption) == 192,
               "a slot is four cache lines: the watched thread's, the configured one, the label's and the exemptions'");

/* The member of observer_owner that a slot uses. */
enum observer_owner_kind { OBSERVER_OWNER_WORD = 0, OBSERVER_OWNER_THREADS = 1, OBSERVER_OWNER_TASK = 2 };

/* The thread, threads or task that work on a slot's work item. */
union observer_owner {
  uint64_t tid_address; /* of 32 bits whose lower 30 are the ID of the working thread; 0: the slot's `thread` works */
  const struct observer_owners *threads;
  uint64_t task; /* address of a Swift task */
};

/* The limits of a slot's work items. */
struct observer_limits {
  uint64_t suspicion_ns;      /* age at which sampling begins */
  uint64_t threshold_ns;      /* age at which the work item is a stall */
  uint64_t early_interval_ns; /* time between samples before the threshold */
  uint64_t interval_ns;       /* time between samples after it */
  bool polled;                /* whether the monitor must read the slot often enough (observer_slot.polled) */
};

/* A consistent snapshot of a slot. */
struct observer_slot_snapshot {
  uint64_t item; /* the current work item, to which the other fields belong, or OBSERVER_IDLE */
  struct observer_thread *thread;
  uint32_t generation;
  struct observer_limits limits; /* threshold_ns is UINT64_MAX while it is deferred */
  enum observer_owner_kind owner_kind;
  union observer_owner owner;
  uint32_t owner_task_id;
  uint64_t queue_head_address;
  uint64_t unwatched_ns;
  int64_t exempt_ns; /* observer_exemption_sum */
};

/* A work item's label. */
struct observer_label {
  uint32_t bytes; /* 0: none */
  char text[OBSERVER_LABEL_WORDS * 8];
};

/* Returns the process's slot table, always the same pointer, or NULL if there is no memory for it. It has
 * OBSERVER_SLOTS_MAX entries, zero-filled; only the used part becomes resident. A child of fork(2) has its own table:
 * marks that it continues from its parent go to the parent's table, which is not read in the child. Async-signal-safe:
 * no (the first call maps memory). Threads: any. */
struct observer_slot *observer_slot_table(void);

/* Returns the process's slot table, or NULL if it has not been created. Async-signal-safe: yes. Threads: any. */
struct observer_slot *observer_slot_table_if_any(void);

/* Ends SLOT's current work item and records the exact time, because the monitor requested it. Async-signal-safe: yes.
 * Threads: the slot's watched thread. */
CLINUX_NO_LOCKS void observer_slot_end_timed(struct observer_slot *slot);

/* Marks the begin of a work item on the calling thread. A slot that is already marked starts a new work item.
 * Async-signal-safe: no (the first call on a thread registers it). Threads: the slot's watched thread. */
static inline void observer_slot_begin(struct observer_slot *slot) {
  atomic_store_explicit(&slot->thread, observer_thread_current(), memory_order_relaxed);
  uint64_t now = __builtin_expect(atomic_load_explicit(&slot->exact_begins, memory_order_relaxed) != 0, 0)
                     ? clinux_clock_ns() & ~OBSERVER_COARSE
                     : clinux_clock_coarse_ns() | OBSERVER_COARSE;
  atomic_store_explicit(&slot->began_ns, now, memory_order_release);
}

/* Marks the begin of a work item with the exact time: for rare work that might be short. Async-signal-safe: no.
 * Threads: the slot's watched thread. */
static inline void observer_slot_begin_exact(struct observer_slot *slot) {
  atomic_store_explicit(&slot->thread, observer_thread_current(), memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, clinux_clock_ns() & ~OBSERVER_COARSE, memory_order_release);
}

/* Marks the begin of a work item at BEGAN_NS, which can be in the future, for THREAD, which must do the work; NULL if
 * unknown. A slot that is already marked starts a new work item. Async-signal-safe: yes. Threads: any, one at a time
 * for each slot. */
static inline void observer_slot_begin_for(struct observer_slot *slot, struct observer_thread *thread,
                                           uint64_t began_ns) {
  atomic_store_explicit(&slot->thread, thread, memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, began_ns & ~OBSERVER_COARSE, memory_order_release);
}

/* Marks the begin of a work item that began at BEGAN_NS, UNWATCHED_NS before its watch, for the owners that the slot's
 * words name. Async-signal-safe: yes. Threads: any, one at a time for each slot. */
static inline CLINUX_NO_LOCKS void observer_slot_begin_since(struct observer_slot *slot, uint64_t began_ns,
                                                             uint64_t unwatched_ns) {
  atomic_store_explicit(&slot->unwatched_ns, unwatched_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->thread, NULL, memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, began_ns & ~OBSERVER_COARSE, memory_order_release);
}

/* Sets whether SLOT's work item is not a stall for now, at any age: the work that it blocks can be one, and owns the
 * stall. It is still sampled. Async-signal-safe: yes. Threads: any, one at a time for each slot. */
static inline CLINUX_NO_LOCKS void observer_slot_defer(struct observer_slot *slot, bool is_deferred) {
  atomic_store_explicit(&slot->deferred, is_deferred, memory_order_relaxed);
}

/* Begins and ends an exempt scope, whose time does not count. Scopes can be nested. No effect if the slot no longer
 * belongs to GENERATION. The end returns whether no scope is open any more: the monitor has planned no tick for the
 * slot meanwhile. Async-signal-safe: yes. Threads: any. */
static inline void observer_slot_exempt(struct observer_slot *slot, uint32_t generation) {
  observer_exemption_begin(&slot->exemption, generation);
}
static inline bool observer_slot_exempt_no_more(struct observer_slot *slot, uint32_t generation) {
  return observer_exemption_end(&slot->exemption, generation);
}

/* Sets SLOT's label to the BYTES bytes of TEXT, up to OBSERVER_LABEL_WORDS * 8; 0 bytes: none. It stays until it is
 * changed. No effect if the slot no longer belongs to GENERATION, or another thread is changing the label.
 * Async-signal-safe: yes. Threads: any. */
void observer_slot_set_label(struct observer_slot *slot, uint32_t generation, const char *text, size_t bytes);

/* Revokes the former owner's access to SLOT, which must not be marked. Returns false while the owner is setting the
 * label, or beginning or ending an exemption; the slot cannot get another owner then. Async-signal-safe: yes. Threads:
 * as observer_slot_configure. */
bool observer_slot_retire(struct observer_slot *slot);

/* Reads SLOT's label; empty while it is being changed. Async-signal-safe: yes. Threads: any that observes. */
CLINUX_NO_LOCKS void observer_slot_label(const struct observer_slot *slot, struct observer_label *label);

/* Returns a hash of LABEL's text. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_label_hash(const struct observer_label *label) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (uint32_t index = 0; index < label->bytes && index < sizeof label->text; index++)
    hash = (hash ^ (unsigned char)label->text[index]) * UINT64_C(0x100000001b3);
  return hash;
}

/* Returns the ID of the thread that works on a work item whose slot has TID_ADDRESS; 0 if none does, or it cannot be
 * read. Async-signal-safe: yes. Threads: any that observes. */
CLINUX_NO_LOCKS int32_t observer_slot_owner(uint64_t tid_address);

/* Returns a hash of the word at QUEUE_HEAD_ADDRESS, only for comparing two states; 0 if it cannot be read.
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS uint32_t observer_slot_queue_head(uint64_t queue_head_address);

/* Sets the addresses of the owner's thread ID and of the queue's head of SLOT, which must not be marked; both 0 if its
 * begins record the thread. Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_set_addresses(struct observer_slot *slot, uint64_t tid_address, uint64_t queue_head_address);

/* Sets the threads in OWNERS, which must never be freed, as the ones that work on SLOT, which must not be marked.
 * Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_set_owners(struct observer_slot *slot, const struct observer_owners *owners);

/* Sets the address of the head of the queue from which SLOT's owners take their work. Async-signal-safe: yes. Threads:
 * any, while SLOT has its owner. */
void observer_slot_set_queue_head(struct observer_slot *slot, uint64_t queue_head_address);

/* Sets the task at the address TASK with the number ID (observer_swift_task.h) as the one that works on SLOT, which
 * must not be marked. Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_set_task(struct observer_slot *slot, uint64_t task, uint32_t id);

/* Whether the monitor has requested the end time of a work item since SLOT got its owner: it might have reported the
 * work item to the recorder. Async-signal-safe: yes. Threads: any. */
static inline bool observer_slot_end_time_was_wanted(const struct observer_slot *slot) {
  /* Pairs with observer_slot_want_end_time: either the monitor sees that the work item has ended, or this function sees
   * the request. */
  atomic_thread_fence(memory_order_seq_cst);
  return atomic_load_explicit(&slot->end_time_generation, memory_order_seq_cst) ==
         atomic_load_explicit(&slot->generation, memory_order_relaxed);
}

/* Marks the end of the current work item. No effect if there is none. Async-signal-safe: yes. Threads: the slot's
 * watched thread. */
static inline CLINUX_NO_LOCKS void observer_slot_end(struct observer_slot *slot) {
  if (__builtin_expect(atomic_load_explicit(&slot->end_time_wanted, memory_order_relaxed) != 0, 0))
    observer_slot_end_timed(slot);
  atomic_store_explicit(&slot->began_ns, OBSERVER_IDLE, memory_order_release);
}

/* Whether begins of work items with THRESHOLD_NS need an exact time. Async-signal-safe: yes. Threads: any. */
static inline bool observer_slot_needs_exact(uint64_t threshold_ns) {
  return threshold_ns < OBSERVER_SHORT_IN_ERRORS * clinux_clock_coarse_error_ns();
}

/* Returns the maximum lag of ITEM's begin time: COARSE_ERROR_NS if it is coarse, otherwise 0. Async-signal-safe: yes.
 * Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_slot_clock_error_ns(uint64_t item, uint64_t coarse_error_ns) {
  return (item & OBSERVER_COARSE) != 0 ? coarse_error_ns : 0;
}

/* Returns the current work item in SLOT, or OBSERVER_IDLE. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_slot_work_item(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->began_ns, memory_order_acquire);
}

/* Returns the thread that SLOT names as working on its work item; NULL if there is none, or it has exited.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS struct observer_thread *observer_slot_thread(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->thread, memory_order_acquire);
}

/* Reads SLOT without tearing: the fields of the result belong to its work item. A slot that changes during the read is
 * returned as idle; the next tick sees it. Async-signal-safe: yes. Threads: any that observes. */
CLINUX_NO_LOCKS struct observer_slot_snapshot observer_slot_read(const struct observer_slot *slot);

/* Requests the exact end time of ITEM. Returns false without any effect if SLOT has moved on. Async-signal-safe: yes.
 * Threads: the monitor. */
CLINUX_NO_LOCKS bool observer_slot_want_end_time(struct observer_slot *slot, uint64_t item);

/* Returns the exact end time of ITEM, or 0 if it was not recorded. Withdraws the request for it. Async-signal-safe:
 * yes. Threads: the monitor. */
CLINUX_NO_LOCKS uint64_t observer_slot_ended_ns(struct observer_slot *slot, uint64_t item, uint32_t generation);

/* Returns the exempt time at the recorded end (observer_exemption_sum). Async-signal-safe: yes. Threads: the monitor,
 * right after observer_slot_ended_ns. */
static inline CLINUX_NO_LOCKS int64_t observer_slot_ended_exempt_ns(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->ended_exempt_ns, memory_order_relaxed);
}

/* Gives SLOT, which must not be marked and must have been retired, a new owner with LIMITS. Returns the new generation.
 * Async-signal-safe: yes. Threads: any, one at a time for each slot. */
uint32_t observer_slot_configure(struct observer_slot *slot, struct observer_limits limits);

/* Sets other limits for SLOT, which can be marked; they apply to the current work item from the monitor's next tick on.
 * Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_limit(struct observer_slot *slot, struct observer_limits limits);

/* Returns the age at which a work item of SLOT is currently suspected; UINT64_MAX: never. Async-signal-safe: yes.
 * Threads: any. */
static inline uint64_t observer_slot_suspicion_ns(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->suspicion_ns, memory_order_relaxed);
}

/* Returns the age at which a work item of SLOT is a stall, also while it is deferred. Async-signal-safe: yes.
 * Threads: any. */
static inline uint64_t observer_slot_threshold_ns(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->threshold_ns, memory_order_relaxed);
}

/* Makes the monitor ignore SLOT until it is configured again; its generation stays. Async-signal-safe: yes. Threads: as
 * observer_slot_configure. */
void observer_slot_disable(struct observer_slot *slot);

#endif
