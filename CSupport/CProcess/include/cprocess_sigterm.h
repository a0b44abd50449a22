/* Observes SIGTERM without changing its effect. */
#ifndef CPROCESS_SIGTERM_H
#define CPROCESS_SIGTERM_H

#include "clinux_base.h"
#include "cprocess_escalation.h"

/* The state of observing SIGTERM. */
enum cprocess_sigterm_state {
  CPROCESS_SIGTERM_UNCHAINED = 0, /* SIGTERM has no handler to chain to */
  CPROCESS_SIGTERM_CHAINED = 1,   /* this handler notifies the escalation thread and calls the service's */
  CPROCESS_SIGTERM_REPLACED = 2,  /* the service has replaced the handler since: SIGTERM is not observed */
};

/* Installs a handler in front of the service's, if there is one and this has not been done before. The handler notifies
 * ESCALATION, which must never be freed. If SIGTERM has its default action or is ignored, nothing changes. A handler
 * that replaces this one is left alone: it might call this one, and chaining again would create a cycle.
 * Async-signal-safe: yes. Threads: any, one at a time. */
CLINUX_NO_LOCKS enum cprocess_sigterm_state cprocess_sigterm_chain(struct cprocess_escalation *escalation);

#endif
