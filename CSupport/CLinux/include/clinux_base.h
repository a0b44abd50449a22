/* What every header of the ground needs. */
#ifndef CLINUX_BASE_H
#define CLINUX_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Tells the Swift compiler that a function neither locks nor allocates, so that code annotated @_noLocks may call it.
 * The compiler believes this; the function's comment must say why it is true. */
#if defined(__clang__)
#define CLINUX_NO_LOCKS __attribute__((swift_attr("@_noLocks")))
#else
#define CLINUX_NO_LOCKS
#endif

#endif
