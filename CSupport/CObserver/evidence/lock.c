#include "evidence/observer_lock.h"

#include "clinux_memory.h"
#include "clinux_task.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

static _Atomic uint32_t queue_owner, queue_target;

/* Offsets of the thread's ID in glibc's struct pthread (nptl/descr.h) and, on x86_64, of the address of the structure
 * itself (tcbhead_t of tls.h). */
#if defined(__x86_64__)
enum { THREAD_ID = 0x2d0, THREAD_OWN = 0x10 };
#else
enum { THREAD_ID = 0xd0, THREAD_OWN = -1 };
#endif
static atomic_bool knows_threads;

static bool thread_id(uint64_t descriptor, uint32_t *tid) {
  uint64_t own = descriptor;
  bool is_one = descriptor != 0 && descriptor % sizeof own == 0 &&
                (THREAD_OWN < 0 || clinux_memory_read(descriptor + (uint64_t)THREAD_OWN, &own, sizeof own));
  return is_one && own == descriptor && clinux_memory_read(descriptor + THREAD_ID, tid, sizeof *tid);
}

void observer_lock_know_threads(void) {
  uint32_t tid;
  bool is_known = thread_id((uint64_t)pthread_self(), &tid) && (int32_t)tid == clinux_task_self();
  atomic_store_explicit(&knows_threads, is_known, memory_order_relaxed);
}

void observer_lock_know_queues(uint32_t owner_offset, uint32_t target_offset) {
  atomic_store_explicit(&queue_target, target_offset, memory_order_relaxed);
  atomic_store_explicit(&queue_owner, owner_offset, memory_order_relaxed);
}

bool observer_lock_chain_add(struct observer_lock_chain *chain, int32_t tid) {
  for (uint32_t place = 0; place < chain->count; place++)
    if (chain->tids[place] == tid)
      return false;
  if (chain->count == OBSERVER_LOCK_CHAIN_MAX)
    return false;
  chain->tids[chain->count++] = tid;
  return true;
}

enum { HOLDER_PAUSE_NS = 1000000, HOLDER_REST_NS = 500000000 };

static void set_next(struct observer_holders *holders, int32_t tid, uint64_t next_ns) {
  uint32_t place = (uint32_t)tid % OBSERVER_HOLDERS_MAX;
  holders->tids[place] = tid;
  holders->next_ns[place] = next_ns;
}

bool observer_holders_take(struct observer_holders *holders, int32_t tid, uint64_t now_ns) {
  uint32_t place = (uint32_t)tid % OBSERVER_HOLDERS_MAX;
  if (holders->tids[place] == tid && now_ns < holders->next_ns[place])
    return false;
  set_next(holders, tid, now_ns + HOLDER_PAUSE_NS);
  return true;
}

void observer_holders_rest(struct observer_holders *holders, int32_t tid, uint64_t now_ns) {
  set_next(holders, tid, now_ns + HOLDER_REST_NS);
}

/* Returns ESRCH if TID is no thread of this process, another error if unknown. */
static int thread_error(int32_t tid) {
  int saved_errno = errno;
  bool is_there = tid > 0 && syscall(SYS_tgkill, (pid_t)syscall(SYS_getpid), tid, 0) == 0;
  int error = is_there ? 0 : tid > 0 ? errno : ESRCH;
  errno = saved_errno;
  return error;
}

static bool read_words(uint64_t address, uint32_t *words, size_t count) {
  return clinux_memory_read(address, words, count * sizeof *words);
}

/* Word offsets in glibc's locks (struct __pthread_mutex_s of struct_mutex.h, struct __pthread_rwlock_arch_t of
 * struct_rwlock.h), identical on x86_64 and aarch64. */
enum { MUTEX_LOCK = 0, MUTEX_OWNER = 2, MUTEX_USERS = 3, MUTEX_KIND = 4, MUTEX_WORDS = 5 };
enum { RWLOCK_READERS = 0, RWLOCK_PHASE = 2, RWLOCK_WRITERS = 3, RWLOCK_WRITER = 6, RWLOCK_WORDS = 7 };

enum {
  CONTENDED = 2,          /* mutex: locked, with waiters (lowlevellock.h) */
  WRITE_LOCKED = 2,       /* PTHREAD_RWLOCK_WRLOCKED of pthread_rwlock_common.c */
  WRITER_IS_AWAITED = 3,  /* expected value when waiting for a writer: 1 | PTHREAD_RWLOCK_FUTEX_USED */
  MUTEX_KIND_MAX = 0x3ff, /* all flags of pthreadP.h */
  SHARED = 128,           /* PTHREAD_MUTEX_PSHARED_BIT */
  ROBUST = 16,            /* PTHREAD_MUTEX_ROBUST_NORMAL_NP */
};

static void set_known(struct observer_lock *lock, enum observer_lock_kind kind, uint64_t address, uint32_t holder) {
  lock->kind = kind;
  lock->holder = (int32_t)holder;
  lock->address = address;
}

static void set(struct observer_lock *lock, enum observer_lock_kind kind, uint64_t address, uint32_t holder) {
  if (thread_error((int32_t)holder) == 0)
    set_known(lock, kind, address, holder);
}

static void find_word(uint64_t address, struct observer_lock *lock) {
  uint32_t word;
  if (read_words(address, &word, 1))
    set(lock, OBSERVER_LOCK_WORD, address, word & FUTEX_TID_MASK);
}

static void find_mutex(uint64_t address, uint32_t expected, struct observer_lock *lock) {
  uint32_t words[MUTEX_WORDS];
  if (!read_words(address, words, MUTEX_WORDS) || words[MUTEX_LOCK] != expected || words[MUTEX_KIND] > MUTEX_KIND_MAX)
    return;
  uint32_t owner = words[MUTEX_OWNER];
  /* The owner of a process-shared mutex might be a thread of another process. */
  if ((words[MUTEX_KIND] & SHARED) != 0 || words[MUTEX_USERS] == 0 || owner == 0 || owner > CLINUX_TASKS_MAX)
    return;
  /* The word of a robust mutex contains the owner. */
  bool is_robust = (words[MUTEX_KIND] & ROBUST) != 0 && (expected & FUTEX_TID_MASK) == owner;
  if (expected != CONTENDED && !is_robust)
    return;
  int error = thread_error((int32_t)owner);
  if (error != 0 && error != ESRCH)
    return;
  set_known(lock, OBSERVER_LOCK_MUTEX, address, owner);
  lock->is_orphaned = error == ESRCH;
}

/* WORD: index of the awaited word. */
static void find_rwlock(uint64_t address, uint64_t word, struct observer_lock *lock) {
  uint32_t words[RWLOCK_WORDS];
  uint64_t begin = address - word * sizeof words[0];
  if (read_words(begin, words, RWLOCK_WORDS) && words[word] == WRITER_IS_AWAITED &&
      (words[RWLOCK_READERS] & WRITE_LOCKED) != 0 && words[RWLOCK_WRITER] <= CLINUX_TASKS_MAX)
    set(lock, OBSERVER_LOCK_RWLOCK, begin, words[RWLOCK_WRITER]);
}

/* Offsets in a FILE's lock (_IO_lock_t of glibc's stdio-lock.h), in words; STREAM_OWNER in bytes. */
enum { STREAM_LOCK = 0, STREAM_COUNT = 1, STREAM_WORDS = 2, STREAM_OWNER = 8 };

/* Returns false if no stream's lock with an owner is at ADDRESS. */
static bool stream_owner(uint64_t address, uint32_t *owner) {
  uint64_t descriptor;
  return atomic_load_explicit(&knows_threads, memory_order_relaxed) &&
         clinux_memory_read(address + STREAM_OWNER, &descriptor, sizeof descriptor) && thread_id(descriptor, owner);
}

static void find_stream(uint64_t address, struct observer_lock *lock) {
  uint32_t words[STREAM_WORDS], owner;
  if (address % sizeof(uint64_t) == 0 && read_words(address, words, STREAM_WORDS) && words[STREAM_LOCK] == CONTENDED &&
      words[STREAM_COUNT] != 0 && stream_owner(address, &owner))
    set(lock, OBSERVER_LOCK_STREAM, address, owner);
}

/* The kernel clears the joined thread's word when the thread ends (set_tid_address(2)). */
static void find_thread(uint64_t address, uint32_t expected, struct observer_lock *lock) {
  uint32_t word;
  if (expected <= CLINUX_TASKS_MAX && read_words(address, &word, 1) && word == expected)
    set(lock, OBSERVER_LOCK_THREAD, address, word);
}

/* Byte offsets in libdispatch's struct dispatch_sync_context_s (src/queue_internal.h) from the awaited word. */
enum { SYNC_QUEUE = -40, SYNC_WAITER = 4 };

enum { TARGETS_MAX = 8 };

static void find_queue(int32_t tid, uint64_t address, struct observer_lock *lock) {
  uint32_t offset = atomic_load_explicit(&queue_owner, memory_order_relaxed), waiter, owner;
  uint32_t target = atomic_load_explicit(&queue_target, memory_order_relaxed);
  uint64_t queue;
  lock->is_queues = offset == 0;
  if (offset == 0 || !read_words(address + SYNC_WAITER, &waiter, 1) || (waiter & FUTEX_TID_MASK) != (uint32_t)tid ||
      !clinux_memory_read(address + (uint64_t)(int64_t)SYNC_QUEUE, &queue, sizeof queue))
    return;
  for (int depth = 0; depth < TARGETS_MAX && queue != 0 && queue % sizeof queue == 0; depth++) {
    if (!read_words(queue + offset, &owner, 1))
      return;
    if ((owner & FUTEX_TID_MASK) != (uint32_t)tid) {
      set(lock, OBSERVER_LOCK_QUEUE, queue, owner & FUTEX_TID_MASK);
      return;
    }
    /* The waiting thread already owns this queue, so it waits for the queue's target. */
    if (target == 0 || !clinux_memory_read(queue + target, &queue, sizeof queue))
      return;
  }
}

void observer_lock_find(int32_t tid, int64_t call, const uint64_t arguments[6], struct observer_lock *lock) {
  memset(lock, 0, sizeof *lock);
  if (call != SYS_futex || arguments[0] % sizeof(uint32_t) != 0)
    return;
  uint64_t address = arguments[0];
  uint32_t operation = (uint32_t)arguments[1], expected = (uint32_t)arguments[2];
  bool is_private = (operation & FUTEX_PRIVATE_FLAG) != 0;
  switch (operation & FUTEX_CMD_MASK) {
  case FUTEX_LOCK_PI:
  case FUTEX_LOCK_PI2:
    find_word(address, lock);
    break;
  case FUTEX_WAIT:
  case FUTEX_WAIT_BITSET:
    if (is_private && expected == UINT32_MAX) {
      find_queue(tid, address, lock);
    } else if (is_private && expected == WRITER_IS_AWAITED) {
      find_rwlock(address, RWLOCK_PHASE, lock);
      if (lock->kind == OBSERVER_LOCK_NONE)
        find_rwlock(address, RWLOCK_WRITERS, lock);
    } else {
      if (!is_private)
        find_thread(address, expected, lock);
      if (lock->kind == OBSERVER_LOCK_NONE)
        find_mutex(address, expected, lock);
      if (lock->kind == OBSERVER_LOCK_NONE && is_private && expected == CONTENDED)
        find_stream(address, lock);
    }
    break;
  default:
    break;
  }
  lock->is_timed = arguments[3] != 0;
}

int32_t observer_lock_holder(const struct observer_lock *lock) {
  uint32_t place = lock->kind == OBSERVER_LOCK_MUTEX    ? MUTEX_OWNER * sizeof(uint32_t)
                   : lock->kind == OBSERVER_LOCK_RWLOCK ? RWLOCK_WRITER * sizeof(uint32_t)
                   : lock->kind == OBSERVER_LOCK_QUEUE  ? atomic_load_explicit(&queue_owner, memory_order_relaxed)
                                                        : 0;
  uint32_t word;
  bool is_read = lock->kind == OBSERVER_LOCK_STREAM
                     ? stream_owner(lock->address, &word)
                     : lock->kind != OBSERVER_LOCK_NONE && read_words(lock->address + place, &word, 1);
  return is_read ? (int32_t)(word & FUTEX_TID_MASK) : 0;
}
