#define _GNU_SOURCE
#include "TestWorkloads.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, visibility("default"), used))

static volatile uint64_t sink;

static struct {
  uint64_t ns;
  bool computes;
  atomic_bool begun, contended, was_contended;
  atomic_bool contends, got_through;
} held;

void workload_prepare_hold(uint64_t hold_ns, bool computes) {
  held.ns = hold_ns;
  held.computes = computes;
  held.begun = held.was_contended = held.contends = held.got_through = false;
}

KEPT void workload_hold(void) {
  uint64_t end = workload_now_ns() + held.ns;
  struct timespec until = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
  held.begun = true;
  if (held.computes)
    workload_spin(end, NULL);
  else
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
      continue;
  while (!held.contends)
    sink++;
  held.was_contended = !held.got_through;
}

void workload_contend(void (*operation)(void *), void *context) {
  struct timespec moment = {0, 1000000};
  while (!held.begun)
    nanosleep(&moment, NULL);
  held.contends = true;
  operation(context);
  held.got_through = true;
}

bool workload_was_contended(void) { return held.was_contended; }

void workload_use_arenas(int count) { mallopt(M_ARENA_MAX, count); }

/* Larger than chunks in tcache and fast bins, smaller than M_MMAP_THRESHOLD. */
enum { CHUNK_BYTES = 256 << 10, PAGE_BYTES = 4096 };

static uint8_t *guarded; /* the inaccessible page */
static pid_t holder;     /* the thread that must call workload_hold there */
static bool has_held;

static void on_fault(int signal, siginfo_t *information, void *context) {
  (void)signal;
  (void)context;
  uint8_t *address = information->si_addr;
  if (!guarded || address < guarded || address >= guarded + PAGE_BYTES)
    abort();
  /* Another thread can fault first. */
  if (gettid() == holder) {
    workload_hold();
    has_held = true;
  }
  mprotect(guarded, PAGE_BYTES, PROT_READ | PROT_WRITE);
  guarded = NULL;
}

/* Takes three adjacent chunks. The header of the middle chunk shares its page only with content of the first chunk. The
 * last chunk keeps the middle chunk from merging with free memory above. */
static bool take_chunks(uint8_t *chunks[3]) {
  for (int attempt = 0; attempt < 16; attempt++) {
    for (int index = 0; index < 3; index++)
      chunks[index] = malloc(CHUNK_BYTES);
    size_t step = malloc_usable_size(chunks[0]) + sizeof(size_t);
    if (chunks[1] == chunks[0] + step && chunks[2] == chunks[1] + step)
      return true;
  }
  return false;
}

KEPT bool workload_hold_in_malloc(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
  mallopt(M_MMAP_THRESHOLD, 4 * CHUNK_BYTES);
  holder = gettid();
  has_held = false;
  if (sigaction(SIGSEGV, &action, &before) != 0)
    return false;
  for (int attempt = 0; attempt < 16 && !has_held; attempt++) {
    uint8_t *chunks[3];
    if (!take_chunks(chunks))
      break;
    free(chunks[1]);
    uintptr_t size_of_chunk = (uintptr_t)chunks[1] - sizeof(size_t);
    guarded = (uint8_t *)(size_of_chunk & ~(uintptr_t)(PAGE_BYTES - 1));
    if (mprotect(guarded, PAGE_BYTES, PROT_NONE) != 0)
      break;
    void *volatile memory = malloc(CHUNK_BYTES);
    if (guarded)
      mprotect(guarded, PAGE_BYTES, PROT_READ | PROT_WRITE);
    free(memory);
    free(chunks[0]);
    free(chunks[2]);
  }
  sigaction(SIGSEGV, &before, NULL);
  return has_held;
}

void workload_need_malloc(void *context) {
  (void)context;
  void *volatile memory = malloc(CHUNK_BYTES);
  free(memory);
}

static struct {
  pthread_t thread;
  int status;
  int signal;
} leaving;

static void leave(int signal) {
  (void)signal;
  if (leaving.signal != 0)
    raise(leaving.signal);
  exit(leaving.status);
}

static void interrupt(void *context) {
  (void)context;
  pthread_kill(leaving.thread, SIGTERM);
}

static void *wait_and_interrupt(void *context) {
  workload_contend(interrupt, context);
  return NULL;
}

void workload_die_in_malloc(int signal) {
  leaving.signal = signal;
  workload_exit_in_malloc(0);
}

void workload_exit_in_malloc(int status) {
  leaving.thread = pthread_self();
  leaving.status = status;
  signal(SIGTERM, leave);
  /* The process might have inherited a mask that blocks SIGTERM. */
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  workload_prepare_hold(UINT64_C(1000000000000), true);
  pthread_t other;
  pthread_create(&other, NULL, wait_and_interrupt, NULL);
  workload_hold_in_malloc();
}

KEPT void workload_hold_stdio(void) {
  flockfile(stdout);
  flockfile(stderr);
  workload_hold();
  funlockfile(stderr);
  funlockfile(stdout);
}

void workload_need_stdio(void *context) {
  (void)context;
  fputs("", stdout);
}

static int hold_once(struct dl_phdr_info *information, size_t size, void *context) {
  (void)information;
  (void)size;
  (void)context;
  workload_hold();
  return 1;
}

KEPT void workload_hold_in_module_list(void) { sink += (uint64_t)dl_iterate_phdr(hold_once, NULL); }

static int nothing(struct dl_phdr_info *information, size_t size, void *context) {
  (void)information;
  (void)size;
  (void)context;
  return 1;
}

void workload_need_module_list(void *context) {
  (void)context;
  dl_iterate_phdr(nothing, NULL);
}

KEPT bool workload_hold_in_initializer(const char *path) {
  char address[32];
  snprintf(address, sizeof address, "%lx", (unsigned long)(uintptr_t)workload_hold);
  setenv("WORKLOAD_HOLD", address, 1);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  sink++;
  return library != NULL;
}

KEPT void workload_rest(void) {
  struct timespec time = {0, 280000000};
  while (nanosleep(&time, &time) != 0)
    continue;
  sink++;
}

KEPT bool workload_hold_in_plugin(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, "plugin_works") : NULL;
  void (*works)(void (*)(void));
  memcpy(&works, &symbol, sizeof works);
  if (!works)
    return false;
  works(workload_rest);
  dlclose(library);
  for (int turn = 0; turn < 3; turn++)
    workload_rest();
  return true;
}

void workload_need_loader(void *context) {
  (void)context;
  void *library = dlopen("libm.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library)
    dlclose(library);
}
