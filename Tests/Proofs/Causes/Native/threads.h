/* Threads that hold locks and other resources of the stalled work. */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define NOT_INLINED __attribute__((noinline))

#ifdef __cplusplus
extern "C" {
#endif

/* Runs BODY on a thread called NAME, and waits until it calls cause_begun. */
pthread_t cause_thread(const char *name, void *(*body)(void *), unsigned milliseconds);
void cause_begun(void);

/* The number of milliseconds that cause_thread passed to BODY. */
static inline unsigned cause_argument(void *argument) { return (unsigned)(uintptr_t)argument; }

/* Modified after calls, because the optimizer would turn a last call into a jump, which leaves no frame. */
extern volatile uint64_t cause_sink;

#ifdef __cplusplus
}
#endif

#endif
