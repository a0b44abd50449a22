/* Definitions common to all headers of CLinux. */
#ifndef CLINUX_BASE_H
#define CLINUX_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Declares to the Swift compiler that a function neither locks nor allocates, so code annotated @_noLocks can call it.
 * The compiler does not check this; the function's comment must state the reason. */
#if defined(__clang__)
#define CLINUX_NO_LOCKS __attribute__((swift_attr("@_noLocks")))
#else
#define CLINUX_NO_LOCKS
#endif

#define CLINUX_RESIDENT_CODE _Pragma("clang section text = \"culprit_resident\"")

#endif
