#ifndef OBSERVER_BASE_H
#define OBSERVER_BASE_H

#include "clinux_base.h"

#define OBSERVER_SLOTS_MAX 4096

#define OBSERVER_THREADS_MAX 16384

/* Maximum number of pending requests. A thread stopped while answering keeps its request until it continues. */
#define OBSERVER_REQUESTS_MAX 64

#endif
