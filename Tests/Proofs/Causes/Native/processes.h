/* Children. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Like fork(2); the child ends with its parent, and after a minute. It may only do what signal handlers may. */
pid_t cause_fork(void);

/* For results that the compiler would have us use. */
static inline void cause_ignore(ssize_t result) { (void)result; }

#ifdef __cplusplus
}
#endif

#endif
