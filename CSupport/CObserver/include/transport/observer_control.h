#ifndef OBSERVER_CONTROL_H
#define OBSERVER_CONTROL_H

#include "base/observer_base.h"
#include "clinux_clock.h"
#include "clinux_wait.h"
#include "slots/observer_exempt.h"

struct observer_control {
  _Atomic uint32_t wake;
  _Atomic uint32_t stop;
  _Atomic uint32_t slots_used;  /* the monitor reads slots [0, slots_used) */
  _Atomic uint64_t wakes_at_ns; /* next tick, CLOCK_MONOTONIC; 0 during a tick */
  _Atomic uint64_t wakeups;
  _Atomic uint32_t threads_wanted; /* requests for a capture of all threads */
  _Atomic uint64_t hang_delay_ns;  /* time from a stall's threshold to its hang */
  _Atomic uint32_t late;           /* counts reports of late work */
  _Atomic uint64_t stalls_lost;
  _Atomic uint64_t stopped_ns;
  struct observer_exemption pause; /* work items do not age during a pause */
};

/* Wakes the threads that call handlers of sections, because the stall table contains late work. Async-signal-safe: yes.
 * Threads: any. */
static inline CLINUX_NO_LOCKS void observer_control_report_late(struct observer_control *control) {
  clinux_notify(&control->late);
}

/* Returns the number of reports; must be read before the stall table. Async-signal-safe: yes. Threads: any. */
static inline uint32_t observer_control_late(const struct observer_control *control) {
  return clinux_word(&control->late);
}

/* Waits until observer_control_late differs from SEEN, or until DEADLINE_NS. Async-signal-safe: yes. Threads: those
 * that call handlers of sections. */
static inline void observer_control_wait_late(const struct observer_control *control, uint32_t seen,
                                              uint64_t deadline_ns) {
  clinux_wait(&control->late, seen, deadline_ns);
}

/* Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS uint64_t observer_control_hang_delay_ns(const struct observer_control *control) {
  return atomic_load_explicit(&control->hang_delay_ns, memory_order_relaxed);
}

/* Async-signal-safe: yes. Threads: any. */
static inline void observer_control_set_hang_delay_ns(struct observer_control *control, uint64_t delay_ns) {
  atomic_store_explicit(&control->hang_delay_ns, delay_ns, memory_order_relaxed);
}

/* Counts a stall that could not be reported to the recorder. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_control_lose_stall(struct observer_control *control) {
  atomic_fetch_add_explicit(&control->stalls_lost, 1, memory_order_relaxed);
}

/* Async-signal-safe: yes. Threads: any. */
static inline uint64_t observer_control_stalls_lost(const struct observer_control *control) {
  return atomic_load_explicit(&control->stalls_lost, memory_order_relaxed);
}

/* Adds TIME_NS to the time in which the process could not run. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_control_add_stopped_ns(struct observer_control *control, uint64_t time_ns) {
  if (time_ns != 0)
    atomic_fetch_add_explicit(&control->stopped_ns, time_ns, memory_order_release);
}

/* Returns the time in which the process could not run. Async-signal-safe: yes. Threads: any. */
static inline uint64_t observer_control_stopped_ns(const struct observer_control *control) {
  return atomic_load_explicit(&control->stopped_ns, memory_order_acquire);
}

/* Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS int64_t observer_control_paused_ns(const struct observer_control *control) {
  return observer_exemption_sum(&control->pause);
}

/* Pauses and resumes the aging of work items. Async-signal-safe: yes. Threads: any. */
static inline void observer_control_pause(struct observer_control *control) {
  observer_exemption_begin(&control->pause, 0);
}
static inline void observer_control_resume(struct observer_control *control) {
  /* The monitor plans no tick during a pause. */
  if (observer_exemption_end(&control->pause, 0))
    clinux_notify(&control->wake);
}

/* Makes the monitor tick now. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void observer_control_wake(struct observer_control *control) {
  clinux_notify(&control->wake);
}

/* Async-signal-safe: yes. Threads: any. */
static inline void observer_control_stop(struct observer_control *control) {
  atomic_store_explicit(&control->stop, 1, memory_order_release);
  clinux_notify(&control->wake);
}

/* Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS bool observer_control_stopping(const struct observer_control *control) {
  return atomic_load_explicit(&control->stop, memory_order_acquire) != 0;
}

/* Requests a capture of all threads. Returns the request's number. One capture can serve several requests.
 * Async-signal-safe: yes. Threads: any. */
static inline uint32_t observer_control_want_threads(struct observer_control *control) {
  uint32_t request = atomic_fetch_add_explicit(&control->threads_wanted, 1, memory_order_release) + 1;
  clinux_notify(&control->wake);
  return request;
}

/* Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS uint32_t observer_control_threads_wanted(const struct observer_control *control) {
  return atomic_load_explicit(&control->threads_wanted, memory_order_acquire);
}

/* Return and set the number of slots that the monitor reads. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint32_t observer_control_slots_used(const struct observer_control *control) {
  return atomic_load_explicit(&control->slots_used, memory_order_acquire);
}
static inline void observer_control_use_slots(struct observer_control *control, uint32_t count) {
  atomic_store_explicit(&control->slots_used, count, memory_order_release);
}

/* Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS uint64_t observer_control_wakeups(const struct observer_control *control) {
  return atomic_load_explicit(&control->wakeups, memory_order_relaxed);
}

/* Begins a tick. Returns the word to wait on, read before the tick so that no notification is missed.
 * Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS uint32_t observer_control_begin_tick(struct observer_control *control) {
  atomic_store_explicit(&control->wakes_at_ns, 0, memory_order_relaxed);
  /* Pairs with the fence in observer_control_tick_by: either the monitor sees the new work item, or the caller wakes
   * the monitor. */
  atomic_thread_fence(memory_order_seq_cst);
  atomic_fetch_add_explicit(&control->wakeups, 1, memory_order_relaxed);
  return clinux_word(&control->wake);
}

/* Waits until DEADLINE_NS, or until the word differs from SEEN (observer_control_begin_tick). Async-signal-safe: yes.
 * Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_control_end_tick(struct observer_control *control, uint32_t seen,
                                                             uint64_t deadline_ns) {
  atomic_store_explicit(&control->wakes_at_ns, deadline_ns, memory_order_seq_cst);
  clinux_wait(&control->wake, seen, deadline_ns);
}

/* Waits until TIME_NS or until the watchdog stops. Async-signal-safe: yes. Threads: the monitor. */
static inline CLINUX_NO_LOCKS void observer_control_wait_out(struct observer_control *control, uint64_t time_ns) {
  while (clinux_clock_ns() < time_ns && !observer_control_stopping(control))
    observer_control_end_tick(control, clinux_word(&control->wake), time_ns);
}

/* Makes the monitor tick at TIME_NS or earlier. Async-signal-safe: yes. Threads: any. */
static inline CLINUX_NO_LOCKS void observer_control_tick_by(struct observer_control *control, uint64_t time_ns) {
  atomic_thread_fence(memory_order_seq_cst);
  uint64_t wakes_at = atomic_load_explicit(&control->wakes_at_ns, memory_order_relaxed);
  if (wakes_at == 0 || wakes_at > time_ns)
    clinux_notify(&control->wake);
}

#endif
