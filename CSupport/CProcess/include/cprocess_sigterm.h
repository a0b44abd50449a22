#ifndef CPROCESS_SIGTERM_H
#define CPROCESS_SIGTERM_H

#include "clinux_base.h"
#include "cprocess_escalation.h"

enum cprocess_sigterm_state {
  CPROCESS_SIGTERM_UNCHAINED = 0, /* no handler of the service */
  CPROCESS_SIGTERM_CHAINED = 1,   /* observed */
  CPROCESS_SIGTERM_REPLACED = 2,  /* the service has replaced the handler since: not observed */
};

/* Installs a handler in front of the service's, once. It notifies ESCALATION, which must never be freed, and calls
 * the service's. Without a handler of the service nothing changes. A handler that replaces this one is left alone:
 * it might call this one, and chaining again would create a cycle. Async-signal-safe: yes. Threads: any, one at a
 * time. */
CLINUX_NO_LOCKS enum cprocess_sigterm_state cprocess_sigterm_chain(struct cprocess_escalation *escalation);

#endif
