#define _GNU_SOURCE
#include "observer_thread.h"

#include "observer_slot.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local struct observer_thread *observer_thread_self;

/* Registration and exit are serialised by this lock. Only watched threads take it, never the monitor or the handler. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct observer_thread *threads; /* mapped on the first registration, never unmapped */
static _Atomic uint32_t threads_used;   /* entries that were ever used: [0, threads_used) */
static _Atomic uint32_t threads_live;
static pthread_key_t exit_key;
static bool exit_key_made;

/* Ends what an exiting thread left marked, then gives its entry back. A unit of work ends with its thread: without this
 * a loop whose owner forgot `ended` would be reported as stalled for ever. */
static void thread_exits(void *entry) {
  struct observer_thread *self = entry;
  struct observer_slot *slots = observer_slot_table();
  for (uint32_t index = 0; slots && index < OBSERVER_SLOTS_MAX; index++) {
    struct observer_slot *slot = &slots[index];
    if (atomic_load_explicit(&slot->generation, memory_order_relaxed) == 0)
      break; /* slots are taken in order of their index; from here on none was ever owned */
    if (atomic_load_explicit(&slot->thread, memory_order_relaxed) == self &&
        observer_slot_unit(slot) != OBSERVER_IDLE)
      observer_slot_end(slot);
  }
  uint32_t live = OBSERVER_THREAD_LIVE;
  while (!atomic_compare_exchange_weak_explicit(&self->state, &live, OBSERVER_THREAD_HELD, memory_order_acq_rel,
                                                memory_order_relaxed)) {
    /* The monitor is inside a few system calls about this thread; it never blocks there. */
    live = OBSERVER_THREAD_LIVE;
    sched_yield();
  }
  /* The monitor can no longer use it, and nobody else has the entry yet. */
  int look_descriptor = atomic_load_explicit(&self->look_descriptor, memory_order_relaxed);
  atomic_store_explicit(&self->look_descriptor, -1, memory_order_relaxed);
  atomic_store_explicit(&self->state, OBSERVER_THREAD_FREE, memory_order_release);
  observer_thread_self = NULL;
  if (look_descriptor >= 0)
    close(look_descriptor);
  atomic_fetch_sub_explicit(&threads_live, 1, memory_order_relaxed);
}

/* Runs in the child after fork(2), in its only thread. The threads of the parent are not there; their entries are free, with
 * the descriptors of the files that tell of the parent's threads, which are closed when an entry is used again. The lock
 * may have been held by one of them. */
static void forget_parent(void) {
  pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
  registry_lock = unlocked;
  struct observer_slot *slots = observer_slot_table();
  for (uint32_t index = 0; slots && index < OBSERVER_SLOTS_MAX; index++) {
    if (atomic_load_explicit(&slots[index].generation, memory_order_relaxed) == 0)
      break;
    observer_slot_end(&slots[index]);
  }
  uint32_t used = atomic_load_explicit(&threads_used, memory_order_relaxed);
  for (uint32_t index = 0; index < used; index++)
    atomic_store_explicit(&threads[index].state, OBSERVER_THREAD_FREE, memory_order_relaxed);
  atomic_store_explicit(&threads_live, 0, memory_order_relaxed);
  if (observer_thread_self)
    pthread_setspecific(exit_key, NULL);
  observer_thread_self = NULL;
}

/* The calling thread's stack, for bounding the copy. Unknown bounds are not an error: the copy is then made page by page
 * with process_vm_readv. */
static void find_stack(struct observer_thread *entry) {
  pthread_attr_t attributes;
  void *low = NULL;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    if (pthread_attr_getstack(&attributes, &low, &size) != 0)
      low = NULL;
    pthread_attr_destroy(&attributes);
  }
  atomic_store_explicit(&entry->stack_low, low ? (uint64_t)(uintptr_t)low : 0, memory_order_relaxed);
  atomic_store_explicit(&entry->stack_high, low ? (uint64_t)(uintptr_t)low + size : 0, memory_order_relaxed);
}

static struct observer_thread *take_entry(void) {
  if (!threads) {
    void *memory = mmap(NULL, sizeof(struct observer_thread) * OBSERVER_THREADS_MAX, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return NULL;
    threads = memory;
  }
  uint32_t used = atomic_load_explicit(&threads_used, memory_order_relaxed);
  for (uint32_t index = 0; index < used; index++)
    if (atomic_load_explicit(&threads[index].state, memory_order_acquire) == OBSERVER_THREAD_FREE)
      return &threads[index];
  if (used == OBSERVER_THREADS_MAX)
    return NULL;
  atomic_store_explicit(&threads_used, used + 1, memory_order_release);
  return &threads[used];
}

struct observer_thread *observer_thread_register(void) {
  int saved_errno = errno;
  struct observer_thread *entry = NULL;
  pthread_mutex_lock(&registry_lock);
  if (!exit_key_made)
    exit_key_made = pthread_key_create(&exit_key, thread_exits) == 0 && pthread_atfork(NULL, NULL, forget_parent) == 0;
  if (exit_key_made)
    entry = take_entry();
  if (entry && pthread_setspecific(exit_key, entry) != 0)
    entry = NULL;
  if (entry) {
    find_stack(entry);
    int32_t tid = (int32_t)syscall(SYS_gettid);
    int left_by_parent = atomic_load_explicit(&entry->look_descriptor, memory_order_relaxed);
    if (left_by_parent > 0)
      close(left_by_parent);
    atomic_store_explicit(&entry->tid, tid, memory_order_relaxed);
    atomic_store_explicit(&entry->kept_out_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->look_descriptor, observer_thread_open_look(tid), memory_order_relaxed);
    atomic_store_explicit(&entry->state, OBSERVER_THREAD_LIVE, memory_order_release);
    atomic_fetch_add_explicit(&threads_live, 1, memory_order_relaxed);
    observer_thread_self = entry;
  }
  pthread_mutex_unlock(&registry_lock);
  errno = saved_errno;
  return entry;
}

int observer_thread_open_look(int32_t tid) {
  int saved_errno = errno;
  /* Put together by hand: snprintf is not async-signal-safe. */
  char path[sizeof "/proc/self/task/" + 10 + sizeof "/syscall"] = "/proc/self/task/";
  char digits[10];
  size_t count = 0, length = sizeof "/proc/self/task/" - 1;
  for (uint32_t rest = (uint32_t)tid; rest > 0; rest /= 10)
    digits[count++] = (char)('0' + rest % 10);
  while (count > 0)
    path[length++] = digits[--count];
  memcpy(path + length, "/syscall", sizeof "/syscall");
  int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (descriptor < 0)
    descriptor = -errno;
  errno = saved_errno;
  return descriptor;
}

struct observer_thread *observer_thread_find(int32_t tid) {
  uint32_t used = atomic_load_explicit(&threads_used, memory_order_acquire);
  for (uint32_t index = 0; index < used; index++) {
    struct observer_thread *thread = &threads[index];
    if (atomic_load_explicit(&thread->tid, memory_order_relaxed) == tid &&
        atomic_load_explicit(&thread->state, memory_order_acquire) != OBSERVER_THREAD_FREE)
      return thread;
  }
  return NULL;
}

void observer_thread_set_name(const char *name) {
  char kept[16] = {0};
  strncpy(kept, name, sizeof kept - 1);
  pthread_setname_np(pthread_self(), kept);
}

uint32_t observer_thread_count(void) { return atomic_load_explicit(&threads_live, memory_order_relaxed); }

bool observer_thread_hold(struct observer_thread *thread) {
  uint32_t live = OBSERVER_THREAD_LIVE;
  return atomic_compare_exchange_strong_explicit(&thread->state, &live, OBSERVER_THREAD_HELD, memory_order_acq_rel,
                                                 memory_order_relaxed);
}

bool observer_thread_remains(const struct observer_thread *thread) {
  char byte;
  int descriptor = atomic_load_explicit(&thread->look_descriptor, memory_order_relaxed);
  return descriptor < 0 || syscall(SYS_pread64, descriptor, &byte, sizeof byte, 0L) > 0;
}

void observer_thread_let_go(struct observer_thread *thread) {
  atomic_store_explicit(&thread->state, OBSERVER_THREAD_LIVE, memory_order_release);
}
