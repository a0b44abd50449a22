#ifndef CLINUX_BASE_H
#define CLINUX_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Declares to Swift that a function neither locks nor allocates, for callers annotated @_noLocks. The compiler does
 * not check this. */
#if defined(__clang__)
#define CLINUX_NO_LOCKS __attribute__((swift_attr("@_noLocks")))
#else
#define CLINUX_NO_LOCKS
#endif

#define CLINUX_RESIDENT_CODE _Pragma("clang section text = \"culprit_resident\"")

#endif
