/* Limits shared by the whole observer. */
#ifndef OBSERVER_BASE_H
#define OBSERVER_BASE_H

#include "clinux_base.h"

/* Maximum number of work items watched at a time. */
#define OBSERVER_SLOTS_MAX 4096

/* Maximum number of threads registered at a time. */
#define OBSERVER_THREADS_MAX 16384

/* Maximum number of threads with a pending request for their stack. A request whose thread was stopped while answering
 * is unavailable until that thread continues. */
#define OBSERVER_REQUESTS_MAX 64

#endif
