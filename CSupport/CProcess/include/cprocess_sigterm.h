/* Noticing SIGTERM without changing what it does. */
#ifndef CPROCESS_SIGTERM_H
#define CPROCESS_SIGTERM_H

#include "clinux_base.h"
#include "cprocess_escalation.h"

/* What became of it. */
enum cprocess_sigterm_state {
  CPROCESS_SIGTERM_UNCHAINED = 0, /* SIGTERM has no handler that could be put behind ours */
  CPROCESS_SIGTERM_CHAINED = 1,   /* our handler tells the escalation thread and calls the service's */
  CPROCESS_SIGTERM_REPLACED = 2,  /* the service has installed another one since: SIGTERM is not noticed */
};

/* Puts our handler in front of the service's, if the service has one and that has not been done before; WARDEN, who is
 * told, must never be freed. The signal keeps its flags and its mask. Where SIGTERM has its default action or is
 * ignored, nothing is changed. A handler that replaces ours is left alone: it may call ours, and would be called by it
 * in turn. Async-signal-safe: yes. Threads: any, one at a time. */
CLINUX_NO_LOCKS enum cprocess_sigterm_state cprocess_sigterm_chain(struct cprocess_escalation *escalation);

#endif
