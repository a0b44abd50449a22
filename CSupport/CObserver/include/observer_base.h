/* Limits shared by the whole observer. */
#ifndef OBSERVER_BASE_H
#define OBSERVER_BASE_H

#include "clinux_base.h"

/* The most work items that can be watched at the same time. */
#define OBSERVER_SLOTS_MAX 4096

/* The most threads that can be registered at the same time. */
#define OBSERVER_THREADS_MAX 16384

/* Threads that can be asked for their stack at the same time. A request whose thread began to answer and was stopped in
 * the middle of it is out of use until that thread goes on. */
#define OBSERVER_REQUESTS_MAX 64

#endif
