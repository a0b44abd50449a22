#define _GNU_SOURCE
#include "slots/observer_thread.h"

#include "clinux_clock.h"
#include "clinux_mask.h"
#include "clinux_memory.h"
#include "clinux_task.h"
#include "clinux_thread_pointer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

_Thread_local struct observer_thread *observer_thread_self;

/* Serializes registration and exit; never taken by the monitor or the handler. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct observer_thread *threads; /* never unmapped */
static _Atomic uint32_t threads_used;   /* entries ever used */
static pthread_key_t exit_key;
static bool exit_key_made;

static void (*_Atomic ends_thread)(struct observer_thread *thread);

void observer_thread_at_exit(void (*ends)(struct observer_thread *thread)) {
  atomic_store_explicit(&ends_thread, ends, memory_order_release);
}

/* If the service has set another alternate stack since, that stack stays in place. */
static void remove_alternate_stack(struct observer_thread *entry) {
  stack_t now, none = {.ss_flags = SS_DISABLE};
  if (!entry->alternate || sigaltstack(NULL, &now) != 0)
    return;
  if (now.ss_sp != entry->alternate + getauxval(AT_PAGESZ) || sigaltstack(&none, NULL) == 0)
    munmap(entry->alternate, entry->alternate_bytes);
  entry->alternate = NULL;
}

/* Releases an exiting thread's entry without waiting; the last holder frees it. */
static void thread_exits(void *entry) {
  struct observer_thread *self = entry;
  void (*ends)(struct observer_thread * thread) = atomic_load_explicit(&ends_thread, memory_order_acquire);
  if (ends)
    ends(self);
  remove_alternate_stack(self);
  observer_thread_self = NULL;
  atomic_fetch_and_explicit(&self->state, ~(uint32_t)OBSERVER_THREAD_LIVE, memory_order_acq_rel);
}

/* At fork(2), another thread of the parent might have held the lock. */
static void forget_parent(void) {
  pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
  registry_lock = unlocked;
  uint32_t used = atomic_load_explicit(&threads_used, memory_order_relaxed);
  for (uint32_t index = 0; index < used; index++)
    atomic_store_explicit(&threads[index].state, OBSERVER_THREAD_FREE, memory_order_relaxed);
  if (observer_thread_self)
    pthread_setspecific(exit_key, NULL);
  observer_thread_self = NULL;
}

/* Minimum space that the kernel keeps free below the main thread's stack (arch/x86/mm/mmap.c, arch/arm64 by mm/util.c:
 * mmap_base). */
#define MAIN_STACK_BYTES_MAX (UINT64_C(128) << 20)

/* If the bounds are unknown, stacks are copied page by page. */
static void find_stack(struct observer_thread *entry) {
  pthread_attr_t attributes;
  void *low = NULL;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    if (pthread_attr_getstack(&attributes, &low, &size) != 0)
      low = NULL;
    pthread_attr_destroy(&attributes);
  }
  uint64_t start = (uint64_t)(uintptr_t)low;
  uint64_t end = low ? start + size : 0;
  /* If the main stack is unlimited (RLIMIT_STACK), the C library reports that it starts at the next mapping below. A
   * mapping created later can be nearer. */
  if (low && (pid_t)syscall(SYS_gettid) == getpid() && size > MAIN_STACK_BYTES_MAX)
    start = end - MAIN_STACK_BYTES_MAX;
  atomic_store_explicit(&entry->stack_low, start, memory_order_relaxed);
  atomic_store_explicit(&entry->stack_high, end, memory_order_relaxed);
}

/* Adds an alternate stack for our signal, and STACK_BYTES more for the service's handlers, which have used the thread's
 * own stack until now. Touches the pages for our signal, so the handler causes no page faults. */
static bool add_alternate_stack(struct observer_thread *entry, size_t stack_bytes, size_t signal_bytes) {
  size_t page = getauxval(AT_PAGESZ), bytes = (stack_bytes + signal_bytes + 2 * page - 1) / page * page;
  uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  stack_t stack = {.ss_sp = memory + page, .ss_size = bytes - page};
  if (mprotect(memory, page, PROT_NONE) != 0 || sigaltstack(&stack, NULL) != 0) {
    munmap(memory, bytes);
    return false;
  }
  for (size_t touched = 0; touched < signal_bytes; touched += page)
    *(volatile uint8_t *)(memory + bytes - touched - 1) = 0;
  entry->alternate = memory;
  entry->alternate_bytes = bytes;
  return true;
}

/* Ensures room for the kernel's signal frame (getauxval(3), AT_MINSIGSTKSZ) and our handler: sigaltstack(2) accepts
 * 2,048 bytes, but some processors' registers need more, and the kernel would end the process. */
static enum observer_thread_room make_room(struct observer_thread *entry) {
  uint64_t low = atomic_load_explicit(&entry->stack_low, memory_order_relaxed);
  uint64_t high = atomic_load_explicit(&entry->stack_high, memory_order_relaxed);
  size_t signal_bytes = getauxval(AT_MINSIGSTKSZ) + OBSERVER_HANDLER_STACK_BYTES;
  stack_t now;
  entry->alternate = NULL;
  bool is_known = sigaltstack(NULL, &now) == 0, has_room = true;
  if (is_known && !(now.ss_flags & SS_DISABLE))
    has_room = now.ss_size >= signal_bytes;
  else if (high - low != 0 && high - low <= OBSERVER_SMALL_STACK_BYTES)
    has_room = is_known && add_alternate_stack(entry, high - low, signal_bytes);
  return has_room ? OBSERVER_ROOM_ENOUGH : OBSERVER_ROOM_LACKING;
}

bool observer_thread_can_answer(int32_t tid) {
  uint64_t pointer;
  if (!clinux_thread_pointer_is_known())
    return true;
  if (!clinux_thread_pointer_find(tid, &pointer))
    return false;
  uint64_t bytes = clinux_thread_pointer_stack_bytes(pointer);
  return bytes == 0 || bytes > OBSERVER_SMALL_STACK_BYTES;
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
    atomic_store_explicit(&entry->tid, tid, memory_order_relaxed);
    bool is_blocked = (clinux_mask_get() & UINT64_C(1) << (OBSERVER_SIGNAL - 1)) != 0;
    atomic_store_explicit(&entry->kept_out_until_ns, is_blocked ? clinux_clock_ns() : 0, memory_order_relaxed);
    atomic_store_explicit(&entry->let_in_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->room, make_room(entry), memory_order_relaxed);
    atomic_store_explicit(&entry->registered_ns, clinux_clock_boot_ns(), memory_order_relaxed);
    atomic_store_explicit(&entry->self_address, (uint64_t)(uintptr_t)&observer_thread_self, memory_order_relaxed);
    observer_thread_self = entry;
    atomic_fetch_add_explicit(&entry->use, 1, memory_order_relaxed);
    atomic_store_explicit(&entry->state, OBSERVER_THREAD_LIVE, memory_order_release);
  }
  pthread_mutex_unlock(&registry_lock);
  errno = saved_errno;
  return entry;
}

struct observer_thread *observer_thread_find(int32_t tid) {
  uint32_t used = atomic_load_explicit(&threads_used, memory_order_acquire);
  for (uint32_t index = 0; index < used; index++) {
    struct observer_thread *thread = &threads[index];
    if (atomic_load_explicit(&thread->tid, memory_order_relaxed) == tid && observer_thread_is_live(thread))
      return thread;
  }
  return NULL;
}

bool observer_thread_hold(struct observer_thread *thread) {
  uint32_t state = atomic_load_explicit(&thread->state, memory_order_relaxed);
  while ((state & OBSERVER_THREAD_LIVE) != 0)
    if (atomic_compare_exchange_weak_explicit(&thread->state, &state, state + OBSERVER_THREAD_HELD,
                                              memory_order_acquire, memory_order_relaxed))
      return true;
  return false;
}

void observer_thread_let_go(struct observer_thread *thread) {
  atomic_fetch_sub_explicit(&thread->state, OBSERVER_THREAD_HELD, memory_order_release);
}

/* The unit of threads' start times; 0: unknown. */
static uint64_t tick_ns(void) {
  uint64_t a_second = getauxval(AT_CLKTCK);
  return a_second > 0 ? UINT64_C(1000000000) / a_second : 0;
}

/* Returns the thread's start time (CLOCK_BOOTTIME, rounded down) from a "stat" file: field 22, in ticks (proc(5)).
 * UINT64_MAX: none. */
static uint64_t started_ns(const char *text, long length) {
  long at = length;
  while (at > 0 && text[at - 1] != ')')
    at--; /* the name before it can contain any character */
  for (int field = 2; at < length && field < 22; at++)
    field += text[at] == ' ';
  uint64_t ticks = 0;
  bool is_number = false;
  for (; at < length && text[at] >= '0' && text[at] <= '9'; at++, is_number = true)
    ticks = ticks * 10 + (uint64_t)(text[at] - '0');
  return is_number && tick_ns() > 0 ? ticks * tick_ns() : UINT64_MAX;
}

bool observer_thread_may_be_another(const struct observer_thread *thread) {
  uint64_t tick = tick_ns(), now = clinux_clock_boot_ns();
  return atomic_load_explicit(&thread->self_address, memory_order_relaxed) != 0 || tick == 0 ||
         now - now % tick > atomic_load_explicit(&thread->registered_ns, memory_order_relaxed);
}

bool observer_thread_remains(const struct observer_thread *thread) {
  int saved_errno = errno;
  int32_t tid = atomic_load_explicit(&thread->tid, memory_order_relaxed);
  char text[512];
  struct clinux_descriptor descriptor = clinux_task_open_file(tid, "/stat");
  long count = descriptor.number < 0 ? -1 : syscall(SYS_pread64, descriptor.number, text, sizeof text, 0L);
  clinux_descriptor_close(&descriptor);
  bool remains;
  if (count > 0) {
    uint64_t started = started_ns(text, count);
    remains = started == UINT64_MAX || started <= atomic_load_explicit(&thread->registered_ns, memory_order_relaxed);
  } else {
    /* Without /proc the kernel can still report whether the thread exists. */
    remains = syscall(SYS_tgkill, (pid_t)syscall(SYS_getpid), tid, 0) == 0;
  }
  uint64_t at = atomic_load_explicit(&thread->self_address, memory_order_relaxed), self = 0;
  remains = remains && (at == 0 || (clinux_memory_read(at, &self, sizeof self) && self == (uint64_t)(uintptr_t)thread));
  errno = saved_errno;
  return remains;
}
