#ifndef CPROCESS_SIGTERM_H
#define CPROCESS_SIGTERM_H

#include "clinux_base.h"
#include "cprocess_escalation.h"

enum cprocess_sigterm_state {
  CPROCESS_SIGTERM_UNCHAINED = 0, /* no handler of the service */
  CPROCESS_SIGTERM_CHAINED = 1,   /* observed */
  CPROCESS_SIGTERM_REPLACED = 2,  /* the service has replaced our handler: not observed */
};

/* Installs our handler in front of the service's handler, once. Our handler notifies ESCALATION, which must never be
 * freed, and calls the service's handler. No effect if the service has no handler. A handler that has replaced ours is
 * left alone: it might call ours, and chaining again would create a cycle. Async-signal-safe: yes. Threads: any, one at
 * a time. */
CLINUX_NO_LOCKS enum cprocess_sigterm_state cprocess_sigterm_chain(struct cprocess_escalation *escalation);

#endif
