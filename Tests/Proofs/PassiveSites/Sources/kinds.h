/* Shared parts of the programs with a stack for each kind of frame. */
#ifndef KINDS_H
#define KINDS_H

#define KEPT __attribute__((noinline, used))

#ifdef __cplusplus
extern "C" {
#endif

extern volatile long kinds_sink;
void kinds_inner(void);

/* Requests HOOK_WATCH (hooks.h). */
void watch(const char *name, void *function, long index);

#ifdef __cplusplus
}
#endif
#endif
