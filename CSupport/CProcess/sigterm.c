#define _GNU_SOURCE
#include "cprocess_sigterm.h"

#include "clinux_clock.h"
#include "cprocess_crash.h"

#include <errno.h>
#include <signal.h>
CLINUX_RESIDENT_CODE

static struct cprocess_escalation *_Atomic listener;
static struct sigaction former; /* written once, before `listener` is set */

/* BEGIN ASYNC-SIGNAL-SAFE SECTION. Uses no locks, allocation, stdio, loader or language runtime: interrupted code might
 * hold any lock. The service's handler is exempt. */

static void on_sigterm(int signal, siginfo_t *information, void *context) {
  int saved_errno = errno;
  struct cprocess_escalation *escalation = atomic_load_explicit(&listener, memory_order_acquire);
  if (escalation)
    cprocess_escalation_begin_shutdown(escalation, clinux_clock_ns());
  errno = saved_errno;
  if (!escalation)
    return;
  if (former.sa_flags & SA_SIGINFO)
    former.sa_sigaction(signal, information, context);
  else
    former.sa_handler(signal);
}

/* END ASYNC-SIGNAL-SAFE SECTION */

enum cprocess_sigterm_state cprocess_sigterm_chain(struct cprocess_escalation *escalation) {
  struct sigaction now;
  if (sigaction(SIGTERM, NULL, &now) != 0)
    return CPROCESS_SIGTERM_UNCHAINED;
  bool is_ours = (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigterm;
  if (is_ours || atomic_load_explicit(&listener, memory_order_relaxed)) {
    atomic_store_explicit(&listener, escalation, memory_order_release);
    return is_ours ? CPROCESS_SIGTERM_CHAINED : CPROCESS_SIGTERM_REPLACED;
  }
  if (!(now.sa_flags & SA_SIGINFO) && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN))
    return CPROCESS_SIGTERM_UNCHAINED;
  /* The crash handler implements the default action. */
  if (cprocess_crash_is_handler(&now))
    return CPROCESS_SIGTERM_UNCHAINED;
  former = now;
  struct sigaction ours = now;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = on_sigterm;
  atomic_store_explicit(&listener, escalation, memory_order_release);
  return sigaction(SIGTERM, &ours, NULL) == 0 ? CPROCESS_SIGTERM_CHAINED : CPROCESS_SIGTERM_UNCHAINED;
}
