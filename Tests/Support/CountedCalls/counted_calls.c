#define _GNU_SOURCE
#include "counted_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
  _Atomic pid_t tid; /* 0: unused */
  _Atomic uint64_t allocations, locks, loader_calls;
  _Atomic(const char *) first_name;
  _Atomic(void *) first_caller;
} threads[COUNTED_THREADS_MAX];
static _Atomic int used;

/* The calling thread's id, cached. */
static __thread pid_t own_tid __attribute__((tls_model("initial-exec")));

enum call { ALLOCATION, LOCK, LOADER };

static void count(enum call call, const char *name, void *caller) {
  int known = atomic_load_explicit(&used, memory_order_relaxed);
  if (known == 0)
    return;
  if (own_tid == 0)
    own_tid = (pid_t)syscall(SYS_gettid);
  for (int place = 0; place < known; place++) {
    if (atomic_load_explicit(&threads[place].tid, memory_order_relaxed) != own_tid)
      continue;
    atomic_fetch_add(call == ALLOCATION ? &threads[place].allocations
                     : call == LOCK     ? &threads[place].locks
                                        : &threads[place].loader_calls,
                     1);
    const char *none = NULL;
    if (atomic_compare_exchange_strong(&threads[place].first_name, &none, name))
      atomic_store(&threads[place].first_caller, caller);
  }
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* The C library's allocator, under the names that it exports for replacements. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t size) {
  count(ALLOCATION, "malloc", CALLER);
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  count(ALLOCATION, "calloc", CALLER);
  return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
  count(ALLOCATION, "realloc", CALLER);
  return __libc_realloc(memory, size);
}

void free(void *memory) {
  if (memory)
    count(ALLOCATION, "free", CALLER);
  __libc_free(memory);
}

void *memalign(size_t alignment, size_t size) {
  count(ALLOCATION, "memalign", CALLER);
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count(ALLOCATION, "aligned_alloc", CALLER);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  count(ALLOCATION, "posix_memalign", CALLER);
  *memory = __libc_memalign(alignment, size);
  return *memory ? 0 : ENOMEM;
}

/* Finds the function of the C library that NAME replaces. */
#define BEHIND(name)                                                                                                   \
  static __typeof__(&name) behind;                                                                                     \
  if (!behind) {                                                                                                       \
    void *symbol = dlsym(RTLD_NEXT, #name);                                                                            \
    memcpy(&behind, &symbol, sizeof symbol);                                                                           \
  }

#define LOCK_FUNCTION(name, parameters, arguments)                                                                     \
  int name parameters {                                                                                                \
    BEHIND(name)                                                                                                       \
    count(LOCK, #name, CALLER);                                                                                        \
    return behind arguments;                                                                                           \
  }

LOCK_FUNCTION(pthread_mutex_lock, (pthread_mutex_t * lock), (lock))
LOCK_FUNCTION(pthread_mutex_trylock, (pthread_mutex_t * lock), (lock))
LOCK_FUNCTION(pthread_mutex_timedlock, (pthread_mutex_t * lock, const struct timespec *until), (lock, until))
LOCK_FUNCTION(pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
LOCK_FUNCTION(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
LOCK_FUNCTION(pthread_spin_lock, (pthread_spinlock_t * lock), (lock))
LOCK_FUNCTION(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *lock), (condition, lock))
LOCK_FUNCTION(pthread_cond_timedwait, (pthread_cond_t * condition, pthread_mutex_t *lock, const struct timespec *until),
              (condition, lock, until))
LOCK_FUNCTION(pthread_once, (pthread_once_t * once, void (*body)(void)), (once, body))
LOCK_FUNCTION(sem_wait, (sem_t * semaphore), (semaphore))
LOCK_FUNCTION(sem_timedwait, (sem_t * semaphore, const struct timespec *until), (semaphore, until))

void *dlopen(const char *path, int flags) {
  BEHIND(dlopen)
  count(LOADER, "dlopen", CALLER);
  return behind(path, flags);
}

int dladdr(const void *address, Dl_info *information) {
  BEHIND(dladdr)
  count(LOADER, "dladdr", CALLER);
  return behind(address, information);
}

int dl_iterate_phdr(int (*body)(struct dl_phdr_info *, size_t, void *), void *context) {
  BEHIND(dl_iterate_phdr)
  count(LOADER, "dl_iterate_phdr", CALLER);
  return behind(body, context);
}

int counted_calls_begin(pid_t tid) {
  int place = atomic_load(&used);
  if (place == COUNTED_THREADS_MAX)
    return -1;
  atomic_store(&threads[place].tid, tid);
  atomic_store(&used, place + 1);
  return place;
}

struct counted_calls counted_calls_of(int place) {
  struct counted_calls calls = {
      .allocations = atomic_load(&threads[place].allocations),
      .locks = atomic_load(&threads[place].locks),
      .loader_calls = atomic_load(&threads[place].loader_calls),
  };
  const char *name = atomic_load(&threads[place].first_name);
  if (name) {
    Dl_info caller = {0};
    dladdr(atomic_load(&threads[place].first_caller), &caller);
    snprintf(calls.first, sizeof calls.first, "%s called by %s in %s", name, caller.dli_sname ? caller.dli_sname : "?",
             caller.dli_fname ? caller.dli_fname : "?");
  }
  return calls;
}

pid_t counted_calls_own_thread(void) { return (pid_t)syscall(SYS_gettid); }

pid_t counted_calls_find(const char *name) {
  pid_t found = 0;
  DIR *directory = opendir("/proc/self/task");
  for (struct dirent *entry; directory && (entry = readdir(directory)) && found == 0;) {
    char path[300], text[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
      close(file);
    if (length > 0 && text[length - 1] == '\n')
      text[length - 1] = '\0';
    if (strcmp(text, name) == 0)
      found = (pid_t)strtol(entry->d_name, NULL, 10);
  }
  if (directory)
    closedir(directory);
  return found;
}

__attribute__((noinline)) void counted_calls_compute(const volatile int *stop) {
  while (*stop == 0)
    ;
}

__attribute__((noinline)) void counted_calls_sleep(unsigned milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  syscall(SYS_nanosleep, &time, NULL);
}
