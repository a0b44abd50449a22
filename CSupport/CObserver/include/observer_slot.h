/* Target slots: which thread works on what since when.
 *
 * A slot belongs to one watched loop or section. The watched thread marks the begin of a work item with two stores
 * and its end with one load and one store; it makes no system call and takes no lock, but for the first mark of a
 * thread, which registers it (observer_thread.h). The monitor reads the slots on its tick. Slots live in one table that
 * is never freed: a slot that is still marked after the watchdog has stopped does no harm.
 *
 * A work item is known by the time of its begin. Where the threshold is long that time is a coarse one, which is
 * cheaper and can be old (clinux_clock_coarse_doubt_ns). Two work items that begin within the same kernel tick then
 * have the same name, which is harmless: the doubt is longer. Where the threshold is short (observer_slot_needs_exact)
 * the time is exact. The last bit of the name says which: OBSERVER_COARSE.
 */
#ifndef OBSERVER_SLOT_H
#define OBSERVER_SLOT_H

#include "clinux_clock.h"
#include "observer_base.h"
#include "observer_exempt.h"
#include "observer_owners.h"
#include "observer_thread.h"

/* began_ns of a slot whose thread is not working. */
#define OBSERVER_IDLE UINT64_C(0)

/* Set in the time of a begin that is coarse, not set in one that is exact: a nanosecond is lost. */
#define OBSERVER_COARSE UINT64_C(1)

/* A threshold is short when it is less than so many times the doubt about a coarse begin
 * (clinux_clock_coarse_doubt_ns): a second where the kernel ticks 250 times in one. */
#define OBSERVER_SHORT_IN_DOUBTS UINT64_C(125)

/* The longest label, in words of eight bytes. */
enum { OBSERVER_LABEL_WORDS = 7 };

struct observer_slot {
  /* Written by the watched thread, read by the monitor. */
  _Atomic uint64_t began_ns; /* begin of the work item under way, coarse or not; OBSERVER_IDLE between work items */
  struct observer_thread *_Atomic thread; /* who works on it; NULL when the thread could not be registered */

  /* Set by the monitor to the work item it has begun to sample, cleared by that work item's end. Tells the watched
   * thread that this one end is worth an exact time. */
  _Atomic uint64_t end_time_wanted;
  _Atomic uint64_t ended_ns;            /* exact end of the work item `ended_item` */
  _Atomic uint64_t ended_item;          /* the work item whose end was timed last */
  _Atomic int64_t ended_exempt_ns;      /* what had been exempt at that end */
  _Atomic uint32_t end_time_generation; /* the owner that an end time was wanted of last */
  _Atomic uint32_t ended_generation;    /* the owner whose work item `ended_item` was */
  _Atomic uint32_t exact_begins; /* 1: begins are worth an exact time; written by the Swift layer with the limits */

  /* Written by the Swift layer while the slot is not marked, read by the monitor. */
  _Atomic uint32_t owner_kind;        /* enum observer_owner_kind */
  _Atomic uint32_t generation;        /* changes whenever the slot gets a new owner; 0: never owned */
  _Atomic uint32_t polled;            /* 1: turns of a loop: they begin without telling the monitor, which must look
                                         often enough, and end with their thread */
  _Atomic uint64_t suspicion_ns;      /* age at which sampling begins */
  _Atomic uint64_t threshold_ns;      /* age at which the work item is a stall */
  _Atomic uint64_t early_interval_ns; /* time between samples before the threshold */
  _Atomic uint64_t interval_ns;       /* time between samples after it */
  _Atomic uint64_t owner_tid_address; /* of 32 bits whose lower 30 are the id of who works on it now; 0: see `thread` */
  _Atomic uint64_t queue_head_address; /* of a word that changes when waiting work is taken up; 0: none */
  _Atomic uint64_t unwatched_ns;       /* how old the work item was when its watch began */

  /* Written by the owner, read by the monitor: a text of its own about the work item. From the top: the owner's
   * generation, 32 bits; how often the label was changed, 24 bits, odd while it is being changed; its length in bytes.
   */
  _Atomic uint64_t label_state;
  _Atomic uint64_t label[OBSERVER_LABEL_WORDS];

  /* Written by the owner, read by the monitor: the scopes that may take as long as they do. */
  struct observer_exemption exemption;

  /* Written by who marks the slot, read by the monitor: 1: the work item is no stall for now, however old it is. */
  _Atomic uint64_t deferred;
  uint64_t unused[5];
};

_Static_assert(sizeof(struct observer_slot) == 256 && offsetof(struct observer_slot, generation) == 64 &&
                   offsetof(struct observer_slot, label_state) == 128 &&
                   offsetof(struct observer_slot, exemption) == 192,
               "a slot is four cache lines: the watched thread's, the configured one, the label's and the exemptions'");

/* What is at a slot's owner_tid_address. */
enum observer_owner_kind {
  OBSERVER_OWNER_WORD =
      0,               /* the word with the id of the thread that works on the work item; no address: see `thread` */
  OBSERVER_OWNERS = 1, /* a struct observer_owners: several threads do */
  OBSERVER_OWNER_TASK = 2, /* a task of Swift's; queue_head_address is its id, and no address */
};

/* A consistent snapshot of a slot. */
struct observer_slot_snapshot {
  uint64_t item; /* OBSERVER_IDLE, or the work item under way; the other fields belong to it */
  struct observer_thread *thread;
  uint32_t generation;
  bool polled;
  uint64_t suspicion_ns;
  uint64_t threshold_ns; /* UINT64_MAX while it is deferred */
  uint64_t early_interval_ns;
  uint64_t interval_ns;
  enum observer_owner_kind owner_kind;
  uint64_t owner_tid_address;
  uint64_t queue_head_address;
  uint64_t unwatched_ns;
  int64_t exempt_ns; /* observer_exemption_sum */
};

/* A work item's label. */
struct observer_label {
  uint32_t bytes; /* 0: none */
  char text[OBSERVER_LABEL_WORDS * 8];
};

/* The process's slot table, OBSERVER_SLOTS_MAX entries, zero-filled and resident only as far as it is used; NULL when
 * there is no memory for it. The same pointer at every call. A child of fork(2) has a table of its own: what it goes on
 * marking of its parent's is in the parent's, at which nobody looks in the child. Async-signal-safe: no (the first call
 * maps memory). Threads: any. */
struct observer_slot *observer_slot_table(void);

/* The same, NULL when this process has not asked for it. Async-signal-safe: yes. Threads: any. */
struct observer_slot *observer_slot_table_if_any(void);

/* Ends the work item that SLOT is marked with, taking the exact time because the monitor asked for it.
 * Async-signal-safe: yes. Threads: the slot's watched thread. */
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

/* As observer_slot_begin, with the exact time: for work that begins rarely and may be short.
 * Async-signal-safe: no. Threads: the slot's watched thread. */
static inline void observer_slot_begin_exact(struct observer_slot *slot) {
  atomic_store_explicit(&slot->thread, observer_thread_current(), memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, clinux_clock_ns() & ~OBSERVER_COARSE, memory_order_release);
}

/* Marks the begin of a work item at BEGAN_NS, which may be yet to come, for THREAD, which will have to do the work;
 * NULL when that is not known. A slot that is already marked starts a new work item. Async-signal-safe: yes. Threads:
 * any, one at a time for the same slot. */
static inline void observer_slot_begin_for(struct observer_slot *slot, struct observer_thread *thread,
                                           uint64_t began_ns) {
  atomic_store_explicit(&slot->thread, thread, memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, began_ns & ~OBSERVER_COARSE, memory_order_release);
}

/* Marks the begin of a work item that began at BEGAN_NS, UNWATCHED_NS before its watch does, for whom the slot's words
 * name. Async-signal-safe: yes. Threads: any, one at a time for the same slot. */
static inline CLINUX_NO_LOCKS void observer_slot_begin_since(struct observer_slot *slot, uint64_t began_ns,
                                                             uint64_t unwatched_ns) {
  atomic_store_explicit(&slot->unwatched_ns, unwatched_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->thread, NULL, memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, began_ns & ~OBSERVER_COARSE, memory_order_release);
}

/* Says whether SLOT's work item is no stall for now, however old it is: what it holds up may be one, and have it. It is
 * sampled all the same. Async-signal-safe: yes. Threads: any, one at a time for the same slot. */
static inline CLINUX_NO_LOCKS void observer_slot_defer(struct observer_slot *slot, bool is_deferred) {
  atomic_store_explicit(&slot->deferred, is_deferred, memory_order_relaxed);
}

/* Begins and ends a scope that may take as long as it does: its time does not count. Scopes may be nested. Does nothing
 * when the slot is not GENERATION's any more. Returns whether no scope is open any more: the monitor has planned no
 * tick for the slot meanwhile. Async-signal-safe: yes. Threads: any. */
static inline void observer_slot_exempt(struct observer_slot *slot, uint32_t generation) {
  observer_exemption_begin(&slot->exemption, generation);
}
static inline bool observer_slot_exempt_no_more(struct observer_slot *slot, uint32_t generation) {
  return observer_exemption_end(&slot->exemption, generation);
}

/* Sets SLOT's label to the BYTES bytes of TEXT, of which OBSERVER_LABEL_WORDS * 8 are kept; 0 bytes for none. It stays
 * until it is changed. Does nothing when the slot is not GENERATION's any more, or another thread is just changing the
 * label. Async-signal-safe: yes. Threads: any. */
void observer_slot_set_label(struct observer_slot *slot, uint32_t generation, const char *text, size_t bytes);

/* Makes sure that the former owner of SLOT, which must not be marked, changes nothing of it any more. Returns false
 * while it is just setting the label, or beginning or ending an exemption: nobody else can have the slot then.
 * Async-signal-safe: yes. Threads: as observer_slot_configure. */
bool observer_slot_retire(struct observer_slot *slot);

/* Reads SLOT's label; none while it is being changed.
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS void observer_slot_label(const struct observer_slot *slot, struct observer_label *label);

/* A hash of LABEL's text. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_label_hash(const struct observer_label *label) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (uint32_t index = 0; index < label->bytes && index < sizeof label->text; index++)
    hash = (hash ^ (unsigned char)label->text[index]) * UINT64_C(0x100000001b3);
  return hash;
}

/* The id of the thread that works on a work item whose slot has the OWNER_TID_ADDRESS; 0 when none does, or it cannot
 * be read. Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS int32_t observer_slot_owner(uint64_t owner_tid_address);

/* What is at QUEUE_HEAD_ADDRESS, made small: it tells two states apart, and nothing else. 0 when it cannot be read.
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS uint32_t observer_slot_queue_head(uint64_t queue_head_address);

/* Says where SLOT, which must not be marked, has its owner and the head of its queue; both 0 for a slot whose begins
 * say it. Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_set_addresses(struct observer_slot *slot, uint64_t owner_tid_address, uint64_t queue_head_address);

/* Says that those in OWNERS, which must stay for as long as the process does, work on what SLOT watches, which must not
 * be marked. Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_set_owners(struct observer_slot *slot, const struct observer_owners *owners);

/* Says where the queue is that SLOT's owners take their work from: the address of its head. Async-signal-safe: yes.
 * Threads: any, as long as SLOT has its owner. */
void observer_slot_set_queue_head(struct observer_slot *slot, uint64_t queue_head_address);

/* Says that the task at the address TASK, with the number ID (observer_swift_task.h), works on what SLOT watches, which
 * must not be marked. Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_set_task(struct observer_slot *slot, uint64_t task, uint32_t id);

/* Whether the monitor has asked for the end of a work item since SLOT got its owner: it may have told the recorder of
 * it. Async-signal-safe: yes. Threads: any. */
static inline bool observer_slot_end_time_was_wanted(const struct observer_slot *slot) {
  /* Pairs with observer_slot_want_end_time: either the monitor sees that the work item has ended, or this sees that it
   * looked. */
  atomic_thread_fence(memory_order_seq_cst);
  return atomic_load_explicit(&slot->end_time_generation, memory_order_seq_cst) ==
         atomic_load_explicit(&slot->generation, memory_order_relaxed);
}

/* Marks the end of the work item under way. Does nothing when there is none.
 * Async-signal-safe: yes. Threads: the slot's watched thread. */
static inline CLINUX_NO_LOCKS void observer_slot_end(struct observer_slot *slot) {
  if (__builtin_expect(atomic_load_explicit(&slot->end_time_wanted, memory_order_relaxed) != 0, 0))
    observer_slot_end_timed(slot);
  atomic_store_explicit(&slot->began_ns, OBSERVER_IDLE, memory_order_release);
}

/* Whether begins of work items that may take THRESHOLD_NS are worth an exact time. Async-signal-safe: yes. Threads:
 * any. */
static inline bool observer_slot_needs_exact(uint64_t threshold_ns) {
  return threshold_ns < OBSERVER_SHORT_IN_DOUBTS * clinux_clock_coarse_doubt_ns();
}

/* How much earlier than the truth the time of ITEM's begin can be; COARSE_DOUBT_NS where it is a coarse one.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_slot_doubt_ns(uint64_t item, uint64_t coarse_doubt_ns) {
  return (item & OBSERVER_COARSE) != 0 ? coarse_doubt_ns : 0;
}

/* The work item under way in SLOT, or OBSERVER_IDLE.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_slot_work_item(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->began_ns, memory_order_acquire);
}

/* The thread that SLOT says works on its work item; NULL when it does not say, or that one has left.
 * Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS struct observer_thread *observer_slot_thread(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->thread, memory_order_acquire);
}

/* Reads SLOT without tearing: the fields returned with a work item were those of that work item. A slot that changes
 * during the read is returned as idle; the next tick sees it. Async-signal-safe: yes. Threads: the monitor, a sampler.
 */
CLINUX_NO_LOCKS struct observer_slot_snapshot observer_slot_read(const struct observer_slot *slot);

/* Asks for the exact end of ITEM. Returns false, and asks for nothing, when SLOT has moved on.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS bool observer_slot_want_end_time(struct observer_slot *slot, uint64_t item);

/* The exact end of ITEM, or 0 when it was not timed. Withdraws the request for it.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS uint64_t observer_slot_ended_ns(struct observer_slot *slot, uint64_t item, uint32_t generation);

/* What had been exempt by then (observer_exemption_sum), if it was timed.
 * Async-signal-safe: yes. Threads: the monitor, right after observer_slot_ended_ns. */
static inline CLINUX_NO_LOCKS int64_t observer_slot_ended_exempt_ns(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->ended_exempt_ns, memory_order_relaxed);
}

/* Gives SLOT, which must not be marked and must have been retired, a new owner with these limits, in nanoseconds.
 * Returns the new generation. Async-signal-safe: yes. Threads: any, one at a time for the same slot. */
uint32_t observer_slot_configure(struct observer_slot *slot, bool polled, uint64_t suspicion_ns, uint64_t threshold_ns,
                                 uint64_t early_interval_ns, uint64_t interval_ns);

/* Gives SLOT, which may be marked, other limits; the work item under way is judged by them from the monitor's next look
 * on. Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_limit(struct observer_slot *slot, bool polled, uint64_t suspicion_ns, uint64_t threshold_ns,
                         uint64_t early_interval_ns, uint64_t interval_ns);

/* The age at which a work item of SLOT is suspected now; UINT64_MAX: never. Async-signal-safe: yes. Threads: any. */
static inline uint64_t observer_slot_suspicion_ns(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->suspicion_ns, memory_order_relaxed);
}

/* Makes the monitor ignore SLOT until it is configured again; its generation stays.
 * Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_disable(struct observer_slot *slot);

#endif
