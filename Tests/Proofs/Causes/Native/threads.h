/* Threads that hold locks and other resources which the stalled work needs. */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define NOT_INLINED __attribute__((noinline))

#ifdef __cplusplus
extern "C" {
#endif

/* Runs BODY on a thread called NAME, and waits until BODY calls cause_begun. */
pthread_t cause_thread(const char *name, void *(*body)(void *), unsigned milliseconds);
void cause_begun(void);

/* Returns the number of milliseconds that cause_thread passed to BODY. */
static inline unsigned cause_argument(void *argument) { return (unsigned)(uintptr_t)argument; }

/* Modified after a function's last call, which the optimizer would otherwise turn into a jump without a frame. */
extern volatile uint64_t cause_sink;

#ifdef __cplusplus
}
#endif

#endif
