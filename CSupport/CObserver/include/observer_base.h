#ifndef OBSERVER_BASE_H
#define OBSERVER_BASE_H

#include "clinux_base.h"

#define OBSERVER_SLOTS_MAX 4096

#define OBSERVER_THREADS_MAX 16384

/* Maximum number of pending requests. A request whose thread was stopped while answering is unavailable until that
 * thread continues. */
#define OBSERVER_REQUESTS_MAX 64

#endif
