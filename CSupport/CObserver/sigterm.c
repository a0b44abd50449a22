#define _GNU_SOURCE
#include "observer_sigterm.h"

#include "clinux_clock.h"

#include <errno.h>
#include <signal.h>

static struct observer_warden *_Atomic listener;
static struct sigaction former; /* written before `listener` is set, and never again */

static void on_sigterm(int signal, siginfo_t *information, void *context) {
  int saved_errno = errno;
  struct observer_warden *warden = atomic_load_explicit(&listener, memory_order_acquire);
  if (warden)
    observer_warden_begin_shutdown(warden, clinux_clock_ns());
  errno = saved_errno;
  if (!warden)
    return;
  if (former.sa_flags & SA_SIGINFO)
    former.sa_sigaction(signal, information, context);
  else
    former.sa_handler(signal);
}

enum observer_sigterm_state observer_sigterm_chain(struct observer_warden *warden) {
  struct sigaction now;
  if (sigaction(SIGTERM, NULL, &now) != 0)
    return OBSERVER_SIGTERM_UNCHAINED;
  bool is_ours = (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigterm;
  if (is_ours || atomic_load_explicit(&listener, memory_order_relaxed)) {
    atomic_store_explicit(&listener, warden, memory_order_release);
    return is_ours ? OBSERVER_SIGTERM_CHAINED : OBSERVER_SIGTERM_REPLACED;
  }
  if (!(now.sa_flags & SA_SIGINFO) && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN))
    return OBSERVER_SIGTERM_UNCHAINED;
  former = now;
  struct sigaction ours = now;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = on_sigterm;
  atomic_store_explicit(&listener, warden, memory_order_release);
  return sigaction(SIGTERM, &ours, NULL) == 0 ? OBSERVER_SIGTERM_CHAINED : OBSERVER_SIGTERM_UNCHAINED;
}
