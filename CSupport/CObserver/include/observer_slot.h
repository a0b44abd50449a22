/* Target slots: which thread works on what since when.
 *
 * A slot belongs to one watched loop or section. The watched thread marks the begin of a unit of work with two stores and
 * its end with one load and one store; it makes no system call and takes no lock. The monitor reads the slots on its
 * tick. Slots live in one table that is never freed: a slot that is still marked after the watchdog has stopped does no
 * harm.
 *
 * A unit of work is known by the coarse time of its begin. Two units that begin within the same kernel tick (at most
 * 10 ms) have the same name, which is harmless: neither can be old enough to be suspected.
 */
#ifndef OBSERVER_SLOT_H
#define OBSERVER_SLOT_H

#include "observer_base.h"
#include "observer_clock.h"
#include "observer_thread.h"

/* began_ns of a slot whose thread is not working. */
#define OBSERVER_IDLE UINT64_C(0)

struct observer_slot {
  /* Written by the watched thread, read by the monitor. */
  _Atomic uint64_t began_ns; /* begin of the unit under way, coarse; OBSERVER_IDLE between units */
  struct observer_thread *_Atomic thread; /* who works on it; NULL when the thread could not be registered */

  /* Set by the monitor to the unit it has begun to sample, cleared by that unit's end. Tells the watched thread that
   * this one end is worth an exact time. */
  _Atomic uint64_t attention;
  _Atomic uint64_t ended_ns;   /* exact end of the unit `ended_unit` */
  _Atomic uint64_t ended_unit; /* the unit whose end was timed last */
  _Atomic uint32_t attended_generation; /* the owner whose work the monitor looked at last */
  uint32_t reserved_generation;
  uint64_t reserved_watched[2];

  /* Written by the Swift layer while the slot is not marked, read by the monitor. */
  _Atomic uint32_t generation; /* changes whenever the slot gets a new owner; 0: never owned */
  _Atomic uint32_t polled;                  /* 1: units begin without telling the monitor; it must look often enough */
  _Atomic uint64_t suspicion_ns;            /* age at which sampling begins */
  _Atomic uint64_t threshold_ns;            /* age at which the unit is a stall */
  _Atomic uint64_t early_interval_ns;       /* time between samples before the threshold */
  _Atomic uint64_t interval_ns;             /* time between samples after it */
  uint64_t reserved_configured[3];
};

_Static_assert(sizeof(struct observer_slot) == 128 && offsetof(struct observer_slot, generation) == 64,
               "a slot is two cache lines: the watched thread's and the configured one");

/* A consistent look at a slot. */
struct observer_slot_view {
  uint64_t unit; /* OBSERVER_IDLE, or the unit under way; the other fields belong to it */
  struct observer_thread *thread;
  uint32_t generation;
  bool polled;
  uint64_t suspicion_ns;
  uint64_t threshold_ns;
  uint64_t early_interval_ns;
  uint64_t interval_ns;
};

/* The slot table, OBSERVER_SLOTS_MAX entries, zero-filled and resident only as far as it is used; NULL when there is no
 * memory for it. The same pointer at every call.
 * Async-signal-safe: no (the first call maps memory). Threads: any. */
struct observer_slot *observer_slot_table(void);

/* Ends the unit that SLOT is marked with, taking the exact time because the monitor asked for it.
 * Async-signal-safe: yes. Threads: the slot's watched thread. */
OBSERVER_NO_LOCKS void observer_slot_end_timed(struct observer_slot *slot);

/* Marks the begin of a unit of work on the calling thread. A slot that is already marked starts a new unit.
 * Async-signal-safe: no (the first call on a thread registers it). Threads: the slot's watched thread. */
static inline void observer_slot_begin(struct observer_slot *slot) {
  atomic_store_explicit(&slot->thread, observer_thread_current(), memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, observer_clock_coarse_ns(), memory_order_release);
}

/* As observer_slot_begin, with the exact time: for work that begins rarely and may be short.
 * Async-signal-safe: no. Threads: the slot's watched thread. */
static inline void observer_slot_begin_exact(struct observer_slot *slot) {
  atomic_store_explicit(&slot->thread, observer_thread_current(), memory_order_relaxed);
  atomic_store_explicit(&slot->began_ns, observer_clock_ns(), memory_order_release);
}

/* Whether the monitor has asked for the end of a unit since SLOT got its owner: it may have told the recorder of it.
 * Async-signal-safe: yes. Threads: any. */
static inline bool observer_slot_was_attended(const struct observer_slot *slot) {
  /* Pairs with observer_slot_attend: either the monitor sees that the unit has ended, or this sees that it looked. */
  atomic_thread_fence(memory_order_seq_cst);
  return atomic_load_explicit(&slot->attended_generation, memory_order_seq_cst) ==
         atomic_load_explicit(&slot->generation, memory_order_relaxed);
}

/* Marks the end of the unit under way. Does nothing when there is none.
 * Async-signal-safe: yes. Threads: the slot's watched thread. */
static inline OBSERVER_NO_LOCKS void observer_slot_end(struct observer_slot *slot) {
  if (__builtin_expect(atomic_load_explicit(&slot->attention, memory_order_relaxed) != 0, 0))
    observer_slot_end_timed(slot);
  atomic_store_explicit(&slot->began_ns, OBSERVER_IDLE, memory_order_release);
}

/* The unit under way in SLOT, or OBSERVER_IDLE.
 * Async-signal-safe: yes. Threads: any. */
static inline OBSERVER_NO_LOCKS uint64_t observer_slot_unit(const struct observer_slot *slot) {
  return atomic_load_explicit(&slot->began_ns, memory_order_acquire);
}

/* Reads SLOT without tearing: the fields returned with a unit were those of that unit. A slot that changes during the
 * read is returned as idle; the next tick sees it.
 * Async-signal-safe: yes. Threads: the monitor. */
OBSERVER_NO_LOCKS struct observer_slot_view observer_slot_read(const struct observer_slot *slot);

/* Asks for the exact end of UNIT. Returns false, and asks for nothing, when SLOT has moved on.
 * Async-signal-safe: yes. Threads: the monitor. */
OBSERVER_NO_LOCKS bool observer_slot_attend(struct observer_slot *slot, uint64_t unit);

/* The exact end of UNIT, or 0 when it was not timed. Withdraws the request for it.
 * Async-signal-safe: yes. Threads: the monitor. */
OBSERVER_NO_LOCKS uint64_t observer_slot_ended_ns(struct observer_slot *slot, uint64_t unit);

/* Gives SLOT, which must not be marked, a new owner with these limits, in nanoseconds. Returns the new generation.
 * Async-signal-safe: yes. Threads: any, one at a time for the same slot. */
uint32_t observer_slot_configure(struct observer_slot *slot, bool polled, uint64_t suspicion_ns, uint64_t threshold_ns,
                                 uint64_t early_interval_ns, uint64_t interval_ns);

/* Makes the monitor ignore SLOT until it is configured again; its generation stays.
 * Async-signal-safe: yes. Threads: as observer_slot_configure. */
void observer_slot_disable(struct observer_slot *slot);

#endif
