/* Slots. A slot contains the current work item of its target, with the thread and the start time.
 *
 * A slot belongs to one watched loop or section. The watched thread marks the start of a work item with two stores and
 * the end with one load and one store, without system calls or locks. A thread's first mark also registers the thread.
 * Slots are never freed, so a mark is harmless after the watchdog has stopped.
 *
 * A work item is identified by its start time: exact if the threshold is short (observer_slot_needs_exact), otherwise
 * coarse, which is cheaper. Coarse work items that start in the same kernel tick share an identity. This is harmless,
 * because the assumed clock lag is longer than a tick. */
#ifndef OBSERVER_SLOT_H
#define OBSERVER_SLOT_H

#include "base/observer_base.h"
#include "clinux_clock.h"
#include "slots/observer_exempt.h"
#include "slots/observer_owners.h"
#include "slots/observer_thread.h"

/* Value of began_ns between work items. */
#define OBSERVER_IDLE UINT64_C(0)

/* Set in a coarse start time, clear in an exact one. */
#define OBSERVER_COARSE UINT64_C(1)

/* A threshold below this multiple of the coarse clock's lag is short: one second at 250 ticks per second. */
#define OBSERVER_SHORT_IN_ERRORS UINT64_C(125)

/* Two calls in Culprit and four in the service, where wrappers can return the work that they begin. */
enum { OBSERVER_FRAMES_UP = 6 };

/* Length of a label in words of eight bytes. */
enum { OBSERVER_LABEL_WORDS = 7 };

struct observer_slot {
  /* Written by the watched thread. */
  _Atomic uint64_t began_ns;              /* coarse or exact */
  struct observer_thread *_Atomic thread; /* NULL: not registered */

  /* The sampled work item, set by the monitor. Cleared when this work item ends and its end time is recorded. */
  _Atomic uint64_t end_time_wanted;
  _Atomic uint64_t ended_ns; /* exact end of `ended_item` */
  _Atomic uint64_t ended_item;
  _Atomic int64_t ended_exempt_ns;
  _Atomic uint32_t end_time_generation;
  _Atomic uint32_t ended_generation; /* owner of `ended_item` */
  _Atomic uint32_t exact_begins;     /* 1: exact begins; written by the Swift layer */

  /* Written by the Swift layer while the slot is not marked. */
  _Atomic uint32_t owner_kind;         /* enum observer_owner_kind */
  _Atomic uint32_t generation;         /* changes with each new owner; 0: never owned */
  _Atomic uint32_t polled;             /* 1: turns of a loop, which do not notify the monitor */
  _Atomic uint64_t suspicion_ns;       /* age at which sampling begins */
  _Atomic uint64_t threshold_ns;       /* age at which work is a stall */
  _Atomic uint64_t early_interval_ns;  /* sampling interval before the threshold */
  _Atomic uint64_t interval_ns;        /* sampling interval after the threshold */
  _Atomic uint64_t owner;              /* union observer_owner */
  _Atomic uint64_t queue_head_address; /* address of a word that changes when waiting work starts; 0: none */
  _Atomic uint64_t unwatched_ns;       /* age of the work item when its watch began */

  /* The owner's text about the work item. The state, from the top: the owner's generation, 32 bits; number of changes,
   * 24 bits, odd during a change; length in bytes. */
  _Atomic uint64_t label_state;
  _Atomic uint64_t label[OBSERVER_LABEL_WORDS];

  struct observer_exemption exemption;

  /* Written by the marking thread. 1: the work item currently does not count as a stall. */
  _Atomic uint32_t deferred;

  /* Written by the Swift layer while the slot is not marked. */
  _Atomic uint32_t owner_task_id; /* the ID of owner.task */
  _Atomic uint64_t frame;         /* observer_slot_set_frame; 0: none */
  uint64_t unused[4];
};

_Static_assert(sizeof(struct observer_slot) == 256 && offsetof(struct observer_slot, generation) == 64 &&
                   offsetof(struct observer_slot, label_state) == 128 &&
                   offsetof(struct observer_slot, exemption) == 192,
               "a slot is four cache lines: the watched thread's, the configured one, the label's and the exemptions'");

enum observer_owner_kind { OBSERVER_OWNER_WORD = 0, OBSERVER_OWNER_THREADS = 1, OBSERVER_OWNER_TASK = 2 };

union observer_owner {
  uint64_t tid_address; /* of 32 bits whose lower 30 are the working thread's ID; 0: the slot's `thread` works */
  const struct observer_owners *threads;
  uint64_t task;
};

struct observer_limits {
  uint64_t suspicion_ns;
  uint64_t threshold_ns;
  uint64_t early_interval_ns;
  uint64_t interval_ns;
  bool polled; /* observer_slot.polled */
};

struct observer_slot_snapshot {
  uint64_t item; /* OBSERVER_IDLE: none */
  struct observer_thread *thread;
  uint32_t generation;
  struct observer_limits limits; /* threshold_ns is UINT64_MAX while deferred */
  enum observer_owner_kind owner_kind;
  union observer_owner owner;
  uint32_t owner_task_id;
  uint64_t queue_head_address;
  uint64_t unwatched_ns;
  int64_t exempt_ns; /* observer_exemption_sum */
};

struct observer_label {
  uint32_t bytes; /* 0: none */
  char text[OBSERVER_LABEL_WORDS * 8];
};

/* Returns the process's table of OBSERVER_SLOTS_MAX slots, or NULL if there is no memory. A child of fork(2) has its
 * own table. Async-signal-safe: no (the first call maps memory). Threads: any. */
struct observer_slot *observer_slot_table(void);

/* Returns the table, or NULL if it has not been created. Async-signal-safe: yes. Threads: any. */
struct observer_slot *observer_slot_table_if_any(void);

/* Ends SLOT's work item and records the exact time. Async-signal-safe: yes. Threads: the slot's watched thread. */
CLINUX_NO_LOCKS void observer_slot_end_timed(struct observer_slot *slot);

/* Marks the start of a work item on the calling thread. Async-signal-safe: no (the first call on a thread registers
 * it). Threads: the slot's watched thread. */
static inline void observer_slot_begin(struct observer_slot *slot) {
  atomic_store_explicit(&slot->thread, observer_thread_current(), memory_order_relaxed);
  uint64_t now = __builtin_expect(atomic_load_explicit(&slot->exact_begins, memory_order_relaxed) != 0, 0)
                     ? clinux_clock_ns() & ~OBSERVER_COARSE
                     : clinux_clock_coarse_ns() | OBSERVER_COARSE;
  atomic_store_explicit(&slot->began_ns, now, memory_order_release);
}

/* As observer_slot_begin, with the exact time. For rare, short work. Async-signal-safe: no. Threads: the slot's watched
 * thread. */
static inline void observer_slot_begin_exact(struct observer_slot *slot) {
  atomic_store_explicit(&slot->thread, observer_thread_current(), memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, clinux_clock_ns() & ~OBSERVER_COARSE, memory_order_release);
}

/* Marks that a work item of THREAD (NULL: unknown) starts at BEGAN_NS, which can be in the future. Async-signal-safe:
 * yes. Threads: any, one at a time for each slot. */
static inline void observer_slot_begin_for(struct observer_slot *slot, struct observer_thread *thread,
                                           uint64_t began_ns) {
  atomic_store_explicit(&slot->thread, thread, memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, began_ns & ~OBSERVER_COARSE, memory_order_release);
}

/* Marks that a work item of the slot's owners started at BEGAN_NS. Its watch began UNWATCHED_NS later.
 * Async-signal-safe: yes. Threads: any, one at a time for each slot. */
static inline CLINUX_NO_LOCKS void observer_slot_begin_since(struct observer_slot *slot, uint64_t began_ns,
                                                             uint64_t unwatched_ns) {
  atomic_store_explicit(&slot->unwatched_ns, unwatched_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->thread, NULL, memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, began_ns & ~OBSERVER_COARSE, memory_order_release);
}

/* Sets whether SLOT's work item is deferred: it currently does not count as a stall, because the stall is attributed to
 * the work that it blocks. Async-signal-safe: yes. Threads: any, one at a time for each slot. */
static inline CLINUX_NO_LOCKS void observer_slot_defer(struct observer_slot *slot, bool is_deferred) {
  atomic_store_explicit(&slot->deferred, is_deferred, memory_order_relaxed);
}

/* Begin and end an exempt scope of GENERATION. The end returns whether no scope is open now. If so, the caller must
 * wake the monitor, which plans no tick during a scope. Async-signal-safe: yes. Threads: any. */
static inline void observer_slot_exempt(struct observer_slot *slot, uint32_t generation) {
  observer_exemption_begin(&slot->exemption, generation);
}
static inline bool observer_slot_exempt_no_more(struct observer_slot *slot, uint32_t generation) {
  return observer_exemption_end(&slot->exemption, generation);
}

/* Sets SLOT's label to BYTES bytes of TEXT, up to OBSERVER_LABEL_WORDS * 8. No effect if GENERATION has ended, or
 * during another change. Async-signal-safe: yes. Threads: any. */
void observer_slot_set_label(struct observer_slot *slot, uint32_t generation, const char *text, size_t bytes);

/* Revokes the owner's access to the unmarked SLOT. Returns false while the owner changes the label or an exemption.
 * Async-signal-safe: yes. Threads: as observer_slot_configure. */
bool observer_slot_retire(struct observer_slot *slot);

/* Reads SLOT's label; empty while it is being changed. Async-signal-safe: yes. Threads: any that observes. */
CLINUX_NO_LOCKS void observer_slot_label(const struct observer_slot *slot, struct observer_label *label);

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_label_hash(const struct observer_label *label) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (uint32_t index = 0; index < label->bytes && index < sizeof label->text; index++)
    hash = (hash ^ (unsigned char)label->text[index]) * UINT64_C(0x100000001b3);
  return hash;
}

/* Returns the working thread's ID, stored at TID_ADDRESS; 0: none, or unreadable. Async-signal-safe: yes. Threads: any
 * that observes. */
CLINUX_NO_LOCKS int32_t observer_slot_owner(uint64_t tid_address);

/* Returns a hash of the word at QUEUE_HEAD_ADDRESS, for comparison; 0: unreadable. Async-signal-safe: yes. Threads: a
 * sampler. */
CLINUX_NO_LOCKS uint32_t observer_slot_queue_head(uint64_t queue_head_address);

/* Set the workers of the unmarked SLOT: the addresses of its thread ID and queue head (both 0 if each work item records
 * its thread), or OWNERS, which must never be freed. Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_set_addresses(struct observer_slot *slot, uint64_t tid_address, uint64_t queue_head_address);
void observer_slot_set_owners(struct observer_slot *slot, const struct observer_owners *owners);

/* Sets the queue head address of SLOT's owners. Async-signal-safe: yes. Threads: any, while SLOT has its owner. */
void observer_slot_set_queue_head(struct observer_slot *slot, uint64_t queue_head_address);

/* Sets TASK with the number ID (observer_swift_task.h) as the worker of the unmarked SLOT. Async-signal-safe: yes.
 * Threads: as observer_slot_configure. */
void observer_slot_set_task(struct observer_slot *slot, uint64_t task, uint32_t id);

/* Records the stack frame of the function OBSERVER_FRAMES_UP calls up, if saved frame pointers lead to it. For work
 * that can outlive the calling function. Async-signal-safe: no (observer_thread_current). Threads: as
 * observer_slot_configure. */
__attribute__((noinline)) void observer_slot_set_frame(struct observer_slot *slot);

/* Whether the function of the recorded frame has returned, if SLOT's thread has STACK_POINTER. Async-signal-safe: yes.
 * Threads: a sampler. */
CLINUX_NO_LOCKS bool observer_slot_has_left(const struct observer_slot *slot, uint64_t stack_pointer);

/* Whether an end time was requested since SLOT got its owner, so a work item might have been reported.
 * Async-signal-safe: yes. Threads: any. */
static inline bool observer_slot_end_time_was_wanted(const struct observer_slot *slot) {
  /* Pairs with observer_slot_want_end_time: either the monitor sees the end, or this function sees the request. */
  atomic_thread_fence(memory_order_seq_cst);
  return atomic_load_explicit(&slot->end_time_generation, memory_order_seq_cst) ==
         atomic_load_explicit(&slot->generation, memory_order_relaxed);
}

/* Marks the end of the work item, if any. Async-signal-safe: yes. Threads: the slot's watched thread. */
static inline CLINUX_NO_LOCKS void observer_slot_end(struct observer_slot *slot) {
  if (__builtin_expect(atomic_load_explicit(&slot->end_time_wanted, memory_order_relaxed) != 0, 0))
    observer_slot_end_timed(slot);
  atomic_store_explicit(&slot->began_ns, OBSERVER_IDLE, memory_order_release);
}

/* Async-signal-safe: yes. Threads: any. */
static inline bool observer_slot_needs_exact(uint64_t threshold_ns) {
  return threshold_ns < OBSERVER_SHORT_IN_ERRORS * clinux_clock_coarse_error_ns();
}

/* Returns the maximum lag of ITEM's start time: COARSE_ERROR_NS or 0. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_slot_clock_error_ns(uint64_t item, uint64_t coarse_error_ns) {
  return (item & OBSERVER_COARSE) != 0 ? coarse_error_ns : 0;
}

/* Returns the work item, or OBSERVER_IDLE. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_slot_work_item(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->began_ns, memory_order_acquire);
}

/* Returns the thread recorded in SLOT; NULL: none, or exited. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS struct observer_thread *observer_slot_thread(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->thread, memory_order_acquire);
}

/* Reads SLOT without tearing; idle if it changes meanwhile. Async-signal-safe: yes. Threads: any that observes. */
CLINUX_NO_LOCKS struct observer_slot_snapshot observer_slot_read(const struct observer_slot *slot);

/* Requests the exact end time of ITEM. Returns false if ITEM has ended. Async-signal-safe: yes. Threads: the
 * monitor. */
CLINUX_NO_LOCKS bool observer_slot_want_end_time(struct observer_slot *slot, uint64_t item);

/* Returns the exact end time of ITEM, 0 if unknown, and withdraws the request. Async-signal-safe: yes. Threads: the
 * monitor. */
CLINUX_NO_LOCKS uint64_t observer_slot_ended_ns(struct observer_slot *slot, uint64_t item, uint32_t generation);

/* Returns the exempt time at the recorded end. Async-signal-safe: yes. Threads: the monitor, right after
 * observer_slot_ended_ns. */
static inline CLINUX_NO_LOCKS int64_t observer_slot_ended_exempt_ns(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->ended_exempt_ns, memory_order_relaxed);
}

/* Gives the unmarked, retired SLOT an owner with LIMITS. Returns the new generation. Async-signal-safe: yes. Threads:
 * any, one at a time for each slot. */
uint32_t observer_slot_configure(struct observer_slot *slot, struct observer_limits limits);

/* Sets new limits for SLOT, which apply from the monitor's next tick on. Async-signal-safe: yes. Threads: as
 * observer_slot_configure. */
void observer_slot_limit(struct observer_slot *slot, struct observer_limits limits);

/* Return the ages at which a work item is suspected (UINT64_MAX: never) and is a stall, without regard to deferral.
 * Async-signal-safe: yes. Threads: any. */
static inline uint64_t observer_slot_suspicion_ns(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->suspicion_ns, memory_order_relaxed);
}
static inline uint64_t observer_slot_threshold_ns(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->threshold_ns, memory_order_relaxed);
}

/* Makes the monitor ignore SLOT until SLOT is configured again; the generation stays. Async-signal-safe: yes. Threads:
 * as observer_slot_configure. */
void observer_slot_disable(struct observer_slot *slot);

#endif
