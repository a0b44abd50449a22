/* Threads that hold what others wait for. */
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

/* What BODY was started with. */
static inline unsigned cause_argument(void *argument) { return (unsigned)(uintptr_t)argument; }

/* A call that nothing comes behind is made a jump where it is optimised: whoever calls adds to this afterwards. */
extern volatile uint64_t cause_sink;

#ifdef __cplusplus
}
#endif

#endif
