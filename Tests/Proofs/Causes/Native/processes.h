/* Child processes. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Like fork(2). The child ends with its parent, or after a minute, and must only call async-signal-safe functions. */
pid_t cause_fork(void);

/* Ignores results that are declared warn_unused_result. */
static inline void cause_ignore(ssize_t result) { (void)result; }

#ifdef __cplusplus
}
#endif

#endif
