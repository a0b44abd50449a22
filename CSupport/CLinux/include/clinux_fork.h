/* Threads that rest while the process forks.
 *
 * At a type's first use, the Swift runtime takes locks that a child cannot release. A watchdog thread that uses the
 * runtime therefore registers here, marks when it rests, and works only while no thread forks. A forking thread waits
 * until all registered threads rest. If a thread does not rest in time, later forks wait for that thread again only
 * after it has rested. */
#ifndef CLINUX_FORK_H
#define CLINUX_FORK_H

#include "clinux_base.h"

/* Maximum wait of a forking thread for all registered threads. */
#define CLINUX_FORK_PATIENCE_NS UINT64_C(100000000)

/* Maximum wait of a registered thread for a fork. */
#define CLINUX_FORK_STAY_NS UINT64_C(500000000)

/* Maximum number of registered threads; further threads work unprotected. */
#define CLINUX_FORK_PLACES_MAX 64

/* Makes every fork of this process and its children wait for registered threads from now on. Async-signal-safe: no
 * (allocates). Threads: any. */
void clinux_fork_start(void);

/* Registers the calling thread, as working. Async-signal-safe: no (might wait for a fork). Threads: one that is not
 * registered. */
void clinux_fork_enter(void);

/* Unregisters the calling thread. Async-signal-safe: yes. Threads: any; no effect for an unregistered one. */
void clinux_fork_leave(void);

/* Marks the calling thread, which must hold no locks, as resting. Returns whether the thread is registered and was
 * working. Async-signal-safe: yes. Threads: any. */
bool clinux_fork_rest(void);

/* Marks the calling thread as working, after waiting until no thread forks. Returns whether the thread is registered
 * and was resting. Async-signal-safe: no (might wait for a fork). Threads: any. */
bool clinux_fork_work(void);

extern _Thread_local bool clinux_fork_takes_part __attribute__((tls_model("initial-exec")));

/* clinux_fork_yield for a registered thread. Async-signal-safe: no (might wait for a fork). Threads: called by
 * clinux_fork_yield. */
void clinux_fork_let_ahead(void);

/* Yields to a thread that is waiting to fork. The caller must hold no locks. Async-signal-safe: no (might wait for a
 * fork). Threads: any; no effect for an unregistered one. */
static inline void clinux_fork_yield(void) {
  if (clinux_fork_takes_part)
    clinux_fork_let_ahead();
}

/* Returns how often a fork proceeded although a registered thread was working. Async-signal-safe: yes. Threads: any. */
uint32_t clinux_fork_impatient_count(void);

#endif
