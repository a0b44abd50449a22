#define _GNU_SOURCE
#include "cprocess_ending.h"

#include "clinux_clock.h"
#include "clinux_process.h"
#include "clinux_wait.h"
#include "cprocess_crash.h"
#include "cprocess_pending.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic uint32_t armed_process;
static struct clinux_wakeup wake;
static _Atomic uint32_t exit_process;
static _Atomic uint64_t exit_began_ns;
static pthread_t exiting_thread;

/* BEGIN ASYNC-SIGNAL-SAFE SECTION. Uses no locks, allocation, stdio, loader or language runtime: interrupted code might
 * hold any lock. */

uint64_t cprocess_ending_began_ns(void) {
  return clinux_process_is(atomic_load(&exit_process)) ? atomic_load(&exit_began_ns) : 0;
}

bool cprocess_ending_is_exiting_thread(pthread_t thread) {
  return cprocess_ending_began_ns() != 0 && pthread_equal(exiting_thread, thread);
}

struct clinux_wakeup *cprocess_ending_wakeup(void) {
  return &wake;
}

void cprocess_ending_done(void) {
  atomic_store(&armed_process, 0);
  cprocess_pending_wake();
}

static bool is_armed(void) { return clinux_process_is(atomic_load(&armed_process)); }

static void at_exit(void) {
  /* A child of fork(2) also runs this handler. */
  if (!is_armed() && !cprocess_pending_any())
    return;
  uint64_t began_ns = clinux_clock_ns();
  exiting_thread = pthread_self();
  cprocess_pending_remove_delivered();
  atomic_store(&exit_began_ns, began_ns);
  atomic_store(&exit_process, clinux_process_stamp());
  clinux_wakeup_notify(&wake);
  for (;;) {
    uint32_t seen = cprocess_pending_word();
    if ((!is_armed() && !cprocess_pending_any()) || clinux_clock_ns() >= began_ns + cprocess_ending_stop_ns)
      break;
    cprocess_pending_wait(seen, began_ns + cprocess_ending_stop_ns);
  }
  cprocess_pending_print(began_ns + cprocess_ending_ns);
  if (is_armed())
    cprocess_crash_note_end(began_ns + cprocess_ending_ns);
}

/* END ASYNC-SIGNAL-SAFE SECTION */

void cprocess_ending_arm(uint64_t (*age)(uint32_t slot, uint64_t item)) {
  static bool is_registered;
  cprocess_pending_start(age);
  atomic_store(&armed_process, clinux_process_stamp());
  if (!is_registered)
    is_registered = atexit(at_exit) == 0;
}
