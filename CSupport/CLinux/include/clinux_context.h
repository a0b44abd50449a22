/* Which set of the observer's working memory a thread uses.
 *
 * Taking a stack needs room: for the copy, for pages of code and unwind tables, for what was learnt from them. All of
 * it is allocated once for each context, so that a sampler that the kernel holds up for ever can be replaced by another
 * one, which shares nothing with it.
 */
#ifndef CLINUX_CONTEXT_H
#define CLINUX_CONTEXT_H

#include "clinux_base.h"

/* Context 0 belongs to whichever thread has entered none: setting up, tools. The others are entered by samplers. */
#define CLINUX_CONTEXTS_MAX 3

/* That of handlers of signals, for as long as they run: it has a window for reading memory (clinux_memory.h), and
 * nothing else. */
#define CLINUX_HANDLERS_CONTEXT CLINUX_CONTEXTS_MAX

/* That of a thread that looks at others all the time and takes no stacks: it has a window of its own, too, so that
 * nobody waits for it who has entered no context. */
#define CLINUX_WATCHERS_CONTEXT (CLINUX_CONTEXTS_MAX + 1)

/* The calling thread's context. In the static part of a thread's storage: looking it up allocates nothing. */
extern _Thread_local int clinux_context __attribute__((tls_model("initial-exec")));

/* Enters a context that no thread is in. Who enters one must have SIGXFSZ blocked for as long as he is in it: memory is
 * read by writing it to a file (clinux_memory.h). Returns its number from 1 on, or 0 when every one is taken.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS int clinux_context_enter(void);

/* Makes CLINUX_WATCHERS_CONTEXT the calling thread's. Async-signal-safe: yes. Threads: one that looks at others, for
 * good, with SIGXFSZ blocked. */
CLINUX_NO_LOCKS void clinux_context_enter_watchers(void);

/* Says that no thread is in one: in the child after fork(2). Async-signal-safe: yes. Threads: the child's only one. */
void clinux_context_forget_parent(void);

/* Leaves the calling thread's context. Async-signal-safe: yes. Threads: one that has entered. */
CLINUX_NO_LOCKS void clinux_context_leave(void);

#endif
