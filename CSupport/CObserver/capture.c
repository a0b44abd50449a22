#define _GNU_SOURCE
#include "observer_capture.h"

#include "observer_abort.h"
#include "observer_clock.h"
#include "observer_context.h"
#include "observer_mask.h"
#include "observer_memory.h"
#include "observer_passive.h"
#include "observer_signal.h"
#include "observer_wait.h"
#include "own_stack.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* The state is the lower part of a request's word; above it is a number that changes with every use, so that a handler
 * which looked at an earlier use cannot answer this one.
 *
 * A request's life: IDLE -> ARMED (monitor) -> COPYING -> DONE or OVER (handler) -> IDLE (monitor). A request whose
 * deadline passes goes ARMED -> IDLE, so that a late handler finds nothing to do; one whose handler has begun and does not
 * finish (its thread was stopped in it) stays COPYING, and another request is used until it is DONE. */
enum request_state { REQUEST_IDLE = 0, REQUEST_ARMED = 1, REQUEST_COPYING = 2, REQUEST_DONE = 3, REQUEST_OVER = 4 };

enum { STATE_MASK = 7, USE_STEP = 8 };

struct request {
  _Atomic uint32_t word;
  bool sent;      /* the monitor has yet to collect or release it; monitor-owned */
  bool abandoned; /* the monitor no longer waits for it; monitor-owned */
  int timer;      /* what sends the signal, or OBSERVER_NO_TIMER; monitor-owned */
  const struct observer_thread *thread; /* who is asked; its id may be another thread's later. Monitor-owned, */
  uint32_t thread_use;                  /* as this */
  /* Written by the monitor before ARMED, read by the handler. */
  pid_t tid;
  const struct observer_slot *slot;
  uint64_t unit;
  bool is_awaited; /* the monitor sleeps until it is answered */
  _Atomic uint32_t mark; /* an observer_signal_mark; also written between ARMED and the signal */
  uint64_t stack_low;
  uint64_t stack_high;
  uint8_t *stack;
  size_t stack_capacity;
  /* Written by the handler between COPYING and DONE. */
  struct observer_copy copy;
};

/* The upper half of the value that travels with our signals; the lower half is the request's index. */
#define SIGNAL_MAGIC UINT64_C(0x43554c50)

/* Those of each context, one context's behind the other's. */
enum { REQUESTS_ALL = OBSERVER_CONTEXTS_MAX * OBSERVER_REQUESTS_MAX };
static struct request requests[REQUESTS_ALL];

static struct request *own_requests(void) { return &requests[observer_context * OBSERVER_REQUESTS_MAX]; }

static _Atomic uint64_t answered;
static _Atomic uint64_t late;
static _Atomic uint64_t unguarded;
/* Whether timers could be made when captures were set up. */
static _Atomic bool timers_work;

/* The action that ours replaced last. Older ones stay readable for handlers that are still running. */
enum { PREVIOUS_MAX = 16 };
static struct sigaction previous_actions[PREVIOUS_MAX];
static uint32_t previous_count;
static const struct sigaction *_Atomic previous_action;

/* BEGIN ASYNC-SIGNAL-SAFE SECTION
 * Runs in the handler, on any thread, with any lock held. Allowed: plain memory, atomics, raw system calls,
 * clock_gettime. Forbidden: locks, allocation, stdio, anything that may enter the loader or a language runtime. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* Copies LENGTH bytes of a stack. Sanitizers forbid what this is for: reading frames of other functions, between the variables
 * in them, too. They must neither see it nor have it made a call of their memcpy; a volatile byte is read as it stands. */
#if defined(SANITIZED)
__attribute__((no_sanitize("address", "thread"))) static void copy_stack(uint8_t *to, const uint8_t *from,
                                                                         size_t length) {
  for (size_t at = 0; at < length; at++)
    to[at] = *(const volatile uint8_t *)(from + at);
}
#else
static void copy_stack(uint8_t *to, const uint8_t *from, size_t length) { memcpy(to, from, length); }
#endif

/* How many bytes from START on are worth copying where a stack's end is not known. Thread libraries put a thread's own data
 * at the end of its stack (glibc, nptl/allocatestack.c): what is beyond is not stack. */
static size_t bytes_wanted(uint64_t start, size_t capacity) {
  uint64_t end = observer_arch_thread_pointer();
  return start < end && end - start < capacity ? (size_t)(end - start) : capacity;
}

/* Answers REQUEST, whose word is COPYING in a use of it, in a handler that began at BEGAN. Returns the state that it ends
 * in. */
static enum request_state answer(struct request *request, const void *context, uint64_t began) {
  if (request->slot && observer_slot_unit(request->slot) != request->unit)
    return REQUEST_OVER;
  struct observer_copy *copy = &request->copy;
  observer_arch_registers(context, &copy->registers);
  uint64_t sp = observer_arch_sp(&copy->registers);
  uint64_t start = sp - observer_arch_red_zone();
  copy->stack_start = start;
  copy->own_low = copy->own_end = copy->own_start = copy->own_bytes = 0;
  if (start >= request->stack_low && sp < request->stack_high) {
    size_t live = (size_t)(request->stack_high - start);
    copy->stack_end = request->stack_high;
    copy->truncated = live > request->stack_capacity;
    copy->stack_bytes = copy->truncated ? request->stack_capacity : live;
    copy_stack(request->stack, (const uint8_t *)(uintptr_t)start, copy->stack_bytes);
  } else {
    copy->stack_end = sp + OBSERVER_STACK_BYTES_USUAL;
    /* An alternate or a coroutine's stack: the end of the mapping ends the copy, and not the process. */
    int context_before = observer_context;
    observer_context = OBSERVER_HANDLERS_CONTEXT;
    copy->stack_bytes = observer_memory_read_some(start, request->stack, bytes_wanted(start, request->stack_capacity));
    uint64_t page = observer_copy_page(sp);
    if (copy->stack_bytes == 0 && start < page) {
      copy->stack_start = page;
      copy->stack_bytes = observer_memory_read_some(page, request->stack, bytes_wanted(page, request->stack_capacity));
    }
    copy->truncated = copy->stack_bytes == request->stack_capacity;
    /* What a signal interrupted is looked for where signals can have interrupted: looking takes time. */
    const stack_t *alternate = &((const ucontext_t *)context)->uc_stack;
    if (sp - (uint64_t)(uintptr_t)alternate->ss_sp < alternate->ss_size)
      observer_copy_own_stack(copy, request->stack, request->stack_capacity, request->stack_low, request->stack_high);
    observer_context = context_before;
  }
  copy->taken_ns = began;
  copy->handler_ns = observer_clock_ns() - began;
  return REQUEST_DONE;
}

/* Makes the calling thread block MASK. The bare call: what the C library blocks in the midst of its work stays blocked. */
static void block(const uint64_t *mask, uint64_t *before) {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, before, sizeof *mask);
}

/* What the kernel would block while ACTION handles a signal that interrupted CONTEXT. */
static uint64_t mask_of(const struct sigaction *action, const ucontext_t *context) {
  uint64_t interrupted, added;
  memcpy(&interrupted, &context->uc_sigmask, sizeof interrupted);
  memcpy(&added, &action->sa_mask, sizeof added);
  uint64_t own = action->sa_flags & SA_NODEFER ? 0 : UINT64_C(1) << (OBSERVER_SIGNAL - 1);
  return interrupted | added | own;
}

/* Whether this thread is just passing a signal on. In the static part of a thread's storage: looking it up allocates
 * nothing. */
static _Thread_local volatile bool is_passing_on __attribute__((tls_model("initial-exec")));

/* Passes a signal that is not ours to the handler that was installed before. The default action would end the process
 * (a profiling timer left running is not a reason to die), so it counts as ignored. That handler may pass on to us, when it
 * was installed over ours and ours over it again: the chain ends here then. */
static void pass_on(int signal, siginfo_t *information, void *context) {
  const struct sigaction *previous = atomic_load_explicit(&previous_action, memory_order_acquire);
  if (!previous || is_passing_on || previous->sa_handler == SIG_DFL || previous->sa_handler == SIG_IGN)
    return;
  is_passing_on = true;
  uint64_t theirs = mask_of(previous, context), ours;
  block(&theirs, &ours);
  if (previous->sa_flags & SA_SIGINFO)
    previous->sa_sigaction(signal, information, context);
  else
    previous->sa_handler(signal);
  block(&ours, NULL);
  is_passing_on = false;
}

/* Answers request INDEX, if it is one of the calling thread, and nobody has. Returns whether it did.
 * Async-signal-safe: yes. Threads: that which got the signal. */
static bool serve(uint32_t index, pid_t tid, const void *context, uint64_t began) {
  struct request *request = &requests[index];
  uint32_t word = atomic_load_explicit(&request->word, memory_order_acquire);
  uint32_t use = word & ~(uint32_t)STATE_MASK;
  if ((word & STATE_MASK) != REQUEST_ARMED || request->tid != tid ||
      !atomic_compare_exchange_strong_explicit(&request->word, &word, use | REQUEST_COPYING, memory_order_acquire,
                                               memory_order_relaxed))
    return false;
  bool is_awaited = request->is_awaited;
  enum request_state state = answer(request, context, began);
  atomic_store_explicit(&request->word, use | (uint32_t)state, memory_order_release);
  if (is_awaited)
    observer_wake(&request->word);
  return true;
}

/* Answers a request of the calling thread whose signal may have arrived like this one, which has no value. Returns
 * whether there was one. What somebody else sends in just this way, to just this thread, while such a request is under
 * way, counts as ours; ours is passed on in its place.
 * Async-signal-safe: yes. Threads: that which got the signal. */
static bool serve_without_value(const siginfo_t *information, bool from_here, pid_t tid, const void *context,
                                uint64_t began) {
  bool is_bare = information->si_code == SI_TKILL && from_here;
  /* The kernel had no room left for what it tells of a signal (RLIMIT_SIGPENDING). */
  bool is_empty = information->si_code == SI_USER && information->si_pid == 0 && information->si_uid == 0;
  if (!is_bare && !is_empty)
    return false;
  for (uint32_t index = 0; index < REQUESTS_ALL; index++) {
    uint32_t mark = atomic_load_explicit(&requests[index].mark, memory_order_acquire);
    if ((mark == OBSERVER_SIGNAL_BARE || (is_empty && mark == OBSERVER_SIGNAL_QUEUED)) &&
        serve(index, tid, context, began))
      return true;
  }
  return false;
}

/* The handler for SIGPROF. Async-signal-safe: yes. Threads: any. */
static void on_signal(int signal, siginfo_t *information, void *context) {
  int saved_errno = errno;
  uint64_t began = observer_clock_ns();
  bool from_timer = information->si_code == SI_TIMER;
  bool from_here = from_timer || information->si_pid == (pid_t)syscall(SYS_getpid);
  uint64_t value = (uint64_t)(uintptr_t)information->si_value.sival_ptr;
  bool marked = (from_timer || (from_here && information->si_code == SI_QUEUE)) && value >> 32 == SIGNAL_MAGIC;
  if (from_timer && value == OBSERVER_ABORT_VALUE) {
    observer_abort_expire();
  } else if (marked) {
    uint32_t index = (uint32_t)value;
    bool served = index < REQUESTS_ALL && serve(index, (pid_t)syscall(SYS_gettid), context, began);
    atomic_fetch_add_explicit(served ? &answered : &late, 1, memory_order_relaxed);
  } else if (serve_without_value(information, from_here, (pid_t)syscall(SYS_gettid), context, began)) {
    atomic_fetch_add_explicit(&answered, 1, memory_order_relaxed);
  } else {
    pass_on(signal, information, context);
  }
  errno = saved_errno;
}

/* END ASYNC-SIGNAL-SAFE SECTION */

static int install_handler(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK;
  /* A handler of the service's that left by siglongjmp in the midst of ours would leave a request half answered, and one
   * more frame may be too much for a small alternate stack. Faults are not held back: their handlers are to see them. */
  const int faults[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
  sigfillset(&action.sa_mask);
  for (size_t index = 0; index < sizeof faults / sizeof faults[0]; index++)
    sigdelset(&action.sa_mask, faults[index]);
  struct sigaction current;
  if (sigaction(OBSERVER_SIGNAL, NULL, &current) != 0)
    return errno;
  if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_signal)
    return 0;
  /* Published before our handler can need it. */
  struct sigaction *kept = &previous_actions[previous_count++ % PREVIOUS_MAX];
  *kept = current;
  atomic_store_explicit(&previous_action, kept, memory_order_release);
  return sigaction(OBSERVER_SIGNAL, &action, NULL) == 0 ? 0 : errno;
}

static bool is_nobodys(const struct sigaction *action) {
  return !(action->sa_flags & SA_SIGINFO) && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

bool observer_capture_handler_is_ours(void) {
  struct sigaction current;
  return sigaction(OBSERVER_SIGNAL, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
         current.sa_sigaction == on_signal;
}

bool observer_capture_disturbs(void) { return !atomic_load_explicit(&timers_work, memory_order_relaxed); }

/* Whether SIGPROF still comes to us. Somebody may have replaced the handler since; where nobody has taken it over (the
 * default action would end the process) ours is put back. */
static bool keep_handler(void) {
  if (observer_capture_handler_is_ours())
    return true;
  struct sigaction current;
  return sigaction(OBSERVER_SIGNAL, NULL, &current) == 0 && is_nobodys(&current) && install_handler() == 0;
}

static void set_state(struct request *request, enum request_state state) {
  uint32_t use = atomic_load_explicit(&request->word, memory_order_relaxed) & ~(uint32_t)STATE_MASK;
  atomic_store_explicit(&request->word, use | (uint32_t)state, memory_order_release);
}

static struct request *free_request(void) {
  for (int index = 0; index < OBSERVER_REQUESTS_MAX; index++) {
    struct request *request = &own_requests()[index];
    uint32_t state = atomic_load_explicit(&request->word, memory_order_acquire) & STATE_MASK;
    if (request->abandoned && (state == REQUEST_DONE || state == REQUEST_OVER)) {
      request->abandoned = false;
      set_state(request, REQUEST_IDLE);
      state = REQUEST_IDLE;
    }
    if (state == REQUEST_IDLE && !request->sent)
      return request;
  }
  return NULL;
}

static bool is_answered(uint32_t word) {
  uint32_t state = word & STATE_MASK;
  return state == REQUEST_DONE || state == REQUEST_OVER;
}

bool observer_capture_is_answered(uint32_t index) {
  return is_answered(atomic_load_explicit(&requests[index].word, memory_order_acquire));
}

/* Waits until REQUEST is answered, until DEADLINE_NS at most. */
static void await(const struct request *request, uint64_t deadline_ns) {
  for (;;) {
    uint32_t word = atomic_load_explicit(&request->word, memory_order_acquire);
    if (is_answered(word) || observer_clock_ns() >= deadline_ns)
      return;
    observer_wait(&request->word, word, deadline_ns);
  }
}

/* Sends the signal for REQUEST, which is armed, to THREAD, which is kept from exiting meanwhile. */
static int send_signal(struct observer_thread *thread, struct request *request, enum observer_send_when when) {
  if (!observer_thread_hold(thread))
    return ESRCH;
  if (!observer_thread_remains(thread)) {
    observer_thread_let_go(thread);
    return ESRCH;
  }
  uint64_t value = SIGNAL_MAGIC << 32 | (uint64_t)(request - requests);
  int error = ENOTSUP;
  if (when != OBSERVER_SEND_NOW)
    error = observer_signal_when_running(request->tid, OBSERVER_SIGNAL, value, &request->timer);
  /* A timer that cannot be made just now (RLIMIT_SIGPENDING) is no reason to disturb what timers have not disturbed so far. */
  bool may_disturb = when == OBSERVER_SEND_NOW || !atomic_load_explicit(&timers_work, memory_order_relaxed);
  if (error != 0 && error != ESRCH && when != OBSERVER_SEND_WHEN_RUNNING && may_disturb) {
    error = observer_signal_now(request->tid, OBSERVER_SIGNAL, value, &request->mark);
    if (error == 0 && when == OBSERVER_SEND_SEEN_RUNNING)
      atomic_fetch_add_explicit(&unguarded, 1, memory_order_relaxed);
  }
  observer_thread_let_go(thread);
  return error;
}

/* Whether THREAD blocks the signal: it would not answer, and find the signal when it waits for any (sigwaitinfo(2)). A
 * thread that enters or leaves such a wait does not seem to block what it waits for: so what was seen holds for a while.
 * Async-signal-safe: yes. Threads: the monitor. */
static bool keeps_out(struct observer_thread *thread, int32_t tid) {
  uint64_t now = observer_clock_ns();
  uint64_t seen = atomic_load_explicit(&thread->kept_out_ns, memory_order_relaxed);
  if (observer_mask_keeps_out(tid, OBSERVER_SIGNAL)) {
    atomic_store_explicit(&thread->kept_out_ns, now, memory_order_relaxed);
    return true;
  }
  return seen != 0 && now - seen < UINT64_C(10000000000);
}

static enum observer_capture_status ask(struct observer_thread *thread, const struct observer_slot *slot,
                                        uint64_t unit, enum observer_send_when when, bool is_awaited,
                                        uint32_t *index) {
  if (!thread || !observer_thread_is_live(thread))
    return OBSERVER_THREAD_GONE;
  if (!keep_handler())
    return OBSERVER_HANDLER_REPLACED;
  int32_t tid = atomic_load_explicit(&thread->tid, memory_order_relaxed);
  if (when != OBSERVER_SEND_NOW && keeps_out(thread, tid))
    return OBSERVER_NO_ANSWER;
  if (atomic_load_explicit(&thread->lacks_room, memory_order_relaxed) != 0)
    return OBSERVER_NOT_SIGNALLED;
  struct request *request = free_request();
  if (!request)
    return OBSERVER_REQUESTS_STUCK;
  request->thread = thread;
  request->thread_use = observer_thread_use(thread);
  request->tid = tid;
  request->slot = slot;
  request->unit = unit;
  request->is_awaited = is_awaited;
  request->stack_low = atomic_load_explicit(&thread->stack_low, memory_order_relaxed);
  request->stack_high = atomic_load_explicit(&thread->stack_high, memory_order_relaxed);
  request->timer = OBSERVER_NO_TIMER;
  atomic_store_explicit(&request->mark, OBSERVER_SIGNAL_TIMED, memory_order_relaxed);
  uint32_t use = (atomic_load_explicit(&request->word, memory_order_relaxed) & ~(uint32_t)STATE_MASK) + USE_STEP;
  atomic_store_explicit(&request->word, use | REQUEST_ARMED, memory_order_release);
  request->sent = true;
  *index = (uint32_t)(request - requests);
  int error = send_signal(thread, request, when);
  if (error == 0)
    return OBSERVER_CAPTURED;
  /* Nothing was sent: the request is taken back, unless an earlier, late signal is just answering it. */
  const struct observer_copy *copy = NULL;
  if (observer_capture_collect(*index, &copy) == OBSERVER_CAPTURED)
    observer_capture_release(copy);
  return error == ESRCH ? OBSERVER_THREAD_GONE : OBSERVER_NOT_SIGNALLED;
}

enum observer_capture_status observer_capture_send(struct observer_thread *thread, const struct observer_slot *slot,
                                                   uint64_t unit, enum observer_send_when when, uint32_t *index) {
  return ask(thread, slot, unit, when, false, index);
}

enum observer_capture_status observer_capture_collect(uint32_t index, const struct observer_copy **copy) {
  struct request *request = &requests[index];
  observer_signal_cancel(request->timer);
  request->timer = OBSERVER_NO_TIMER;
  uint32_t word = atomic_load_explicit(&request->word, memory_order_acquire);
  while ((word & STATE_MASK) == REQUEST_ARMED &&
         !atomic_compare_exchange_weak_explicit(&request->word, &word, word - REQUEST_ARMED + REQUEST_IDLE,
                                                memory_order_acquire, memory_order_acquire))
    continue;
  switch (word & STATE_MASK) {
  case REQUEST_DONE:
    /* Another thread with the same id may have answered. */
    if (!observer_thread_is_still(request->thread, request->thread_use)) {
      set_state(request, REQUEST_IDLE);
      request->sent = false;
      return OBSERVER_THREAD_GONE;
    }
    *copy = &request->copy;
    return OBSERVER_CAPTURED;
  case REQUEST_OVER:
    set_state(request, REQUEST_IDLE);
    request->sent = false;
    return OBSERVER_UNIT_OVER;
  case REQUEST_ARMED: /* nobody had begun to answer, and now nobody will */
    request->sent = false;
    return OBSERVER_NO_ANSWER;
  default: /* its thread was stopped in the middle of answering */
    request->abandoned = true;
    request->sent = false;
    return OBSERVER_NO_ANSWER;
  }
}

enum observer_capture_status observer_capture(struct observer_thread *thread, const struct observer_slot *slot,
                                              uint64_t unit, uint64_t timeout_ns, const struct observer_copy **copy) {
  uint32_t index;
  enum observer_capture_status status = ask(thread, slot, unit, OBSERVER_SEND_NOW, true, &index);
  if (status != OBSERVER_CAPTURED)
    return status;
  await(&requests[index], observer_clock_ns() + timeout_ns);
  return observer_capture_collect(index, copy);
}

void observer_capture_release(const struct observer_copy *copy) {
  observer_copy_wipe(copy);
  if (copy->request >= REQUESTS_ALL)
    return;
  set_state(&requests[copy->request], REQUEST_IDLE);
  requests[copy->request].sent = false;
}

uint64_t observer_capture_answered(void) { return atomic_load_explicit(&answered, memory_order_relaxed); }

uint64_t observer_capture_late(void) { return atomic_load_explicit(&late, memory_order_relaxed); }

uint64_t observer_capture_unguarded(void) { return atomic_load_explicit(&unguarded, memory_order_relaxed); }

uint8_t *observer_copy_map(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return NULL;
  madvise(memory, bytes, MADV_DONTDUMP);
  madvise(memory, bytes, MADV_DONTFORK);
  /* The first page of a mapping takes the lock of the address space when it is touched, the others do not. */
  *(volatile uint8_t *)memory = 0;
  return memory;
}

void observer_copy_wipe(const struct observer_copy *copy) {
  memset((uint8_t *)(uintptr_t)copy->stack, 0, copy->stack_bytes + copy->own_bytes);
}

/* Maps larger copy buffers where a request of the calling thread's context has a smaller one. The smaller ones are not
 * unmapped: a late handler may still be writing to one. */
static int map_buffers(size_t capacity) {
  uint8_t *memory = NULL;
  for (int index = 0; index < OBSERVER_REQUESTS_MAX; index++) {
    struct request *request = &own_requests()[index];
    if (request->stack_capacity >= capacity ||
        (atomic_load_explicit(&request->word, memory_order_acquire) & STATE_MASK) != REQUEST_IDLE)
      continue;
    if (!memory && !(memory = observer_copy_map(capacity * OBSERVER_REQUESTS_MAX)))
      return errno;
    request->copy.stack = request->stack = memory + (size_t)index * capacity;
    request->stack_capacity = capacity;
    request->copy.request = (uint32_t)(request - requests);
  }
  return 0;
}

/* Runs in the child after fork(2): nobody waits for what the parent's samplers asked for, and the buffers are not mapped.
 * Timers are not inherited. */
static void forget_parent(void) {
  observer_context_forget_parent();
  observer_passive_forget_parent();
  for (int index = 0; index < REQUESTS_ALL; index++) {
    requests[index].sent = requests[index].abandoned = false;
    requests[index].timer = OBSERVER_NO_TIMER;
    requests[index].stack = NULL;
    requests[index].stack_capacity = 0;
    set_state(&requests[index], REQUEST_IDLE);
  }
}

int observer_capture_prepare(size_t stack_bytes_max) { return map_buffers(stack_bytes_max); }

int observer_capture_start(size_t stack_bytes_max) {
  if (!observer_arch_supported())
    return ENOTSUP;
  static bool is_guarded;
  if (!is_guarded)
    is_guarded = pthread_atfork(NULL, NULL, forget_parent) == 0;
  atomic_store_explicit(&timers_work, observer_signal_timers_work(), memory_order_relaxed);
  int error = map_buffers(stack_bytes_max);
  if (error == 0)
    error = install_handler();
  if (error != 0)
    return error;
  struct observer_thread *self = observer_thread_current();
  if (!self)
    return ENOMEM;
  sigset_t ours, before;
  sigemptyset(&ours);
  sigaddset(&ours, OBSERVER_SIGNAL);
  pthread_sigmask(SIG_UNBLOCK, &ours, &before);
  const struct observer_copy *copy = NULL;
  enum observer_capture_status status =
      observer_capture(self, NULL, OBSERVER_IDLE, UINT64_C(1000000000), &copy);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (status != OBSERVER_CAPTURED)
    return status == OBSERVER_NOT_SIGNALLED ? EPERM : ETIMEDOUT;
  observer_capture_release(copy);
  return 0;
}
