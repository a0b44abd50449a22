/* Attributes and limits shared by the whole observer. */
#ifndef OBSERVER_BASE_H
#define OBSERVER_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Tells the Swift compiler that a function neither locks nor allocates, so that code annotated @_noLocks may call it.
 * The compiler believes this; the function's comment must say why it is true. */
#if defined(__clang__)
#define OBSERVER_NO_LOCKS __attribute__((swift_attr("@_noLocks")))
#else
#define OBSERVER_NO_LOCKS
#endif

/* The most units of work that can be watched at the same time. */
#define OBSERVER_SLOTS_MAX 4096

/* The most threads that can be registered at the same time. */
#define OBSERVER_THREADS_MAX 16384

/* Threads that can be asked for their stack at the same time. A request whose thread began to answer and was stopped in
 * the middle of it is out of use until that thread goes on. */
#define OBSERVER_REQUESTS_MAX 64

#endif
