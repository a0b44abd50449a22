/* Working memory for each sampler. If the kernel blocks a sampler forever, a spare sampler continues in another
 * context. */
#ifndef CLINUX_CONTEXT_H
#define CLINUX_CONTEXT_H

#include "clinux_base.h"

/* Threads that have entered no context share context 0; samplers enter contexts from 1 on. */
#define CLINUX_CONTEXTS_MAX 3

/* The context of signal handlers. It has only a window for reading memory (clinux_memory.h). */
#define CLINUX_HANDLERS_CONTEXT CLINUX_CONTEXTS_MAX

/* The context of a thread that permanently observes other threads and samples no stacks. */
#define CLINUX_WATCHERS_CONTEXT (CLINUX_CONTEXTS_MAX + 1)

/* In static thread-local storage, so access does not allocate. */
extern _Thread_local int clinux_context __attribute__((tls_model("initial-exec")));

/* Enters a free context. Returns its number from 1 on, or 0 if all are taken. The thread must keep SIGXFSZ blocked
 * until it leaves, because reading memory writes to a file, which might exceed RLIMIT_FSIZE. Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS int clinux_context_enter(void);

/* Async-signal-safe: yes. Threads: one that permanently observes others, with SIGXFSZ blocked. */
CLINUX_NO_LOCKS void clinux_context_enter_watchers(void);

/* Frees all contexts after fork(2). Async-signal-safe: yes. Threads: the child's only one. */
void clinux_context_forget_parent(void);

/* Async-signal-safe: yes. Threads: one that has entered. */
CLINUX_NO_LOCKS void clinux_context_leave(void);

#endif
