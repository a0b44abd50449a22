#define _GNU_SOURCE
#include "threads.h"

#include <semaphore.h>

static sem_t begun;
volatile uint64_t cause_sink;

void cause_begun(void) { sem_post(&begun); }

pthread_t cause_thread(const char *name, void *(*body)(void *), unsigned milliseconds) {
  pthread_t thread;
  sem_init(&begun, 0, 0);
  pthread_create(&thread, NULL, body, (void *)(uintptr_t)milliseconds);
  pthread_setname_np(thread, name);
  sem_wait(&begun);
  return thread;
}
