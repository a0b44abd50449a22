#define _GNU_SOURCE
#include "capture/observer_capture.h"
#include "capture_request.h"
#include "deep_room.h"

#include "capture/observer_signal.h"
#include "clinux_clock.h"
#include "clinux_memory.h"
#include "clinux_wait.h"
#include "cprocess_abort.h"
#include "own_stack.h"
#include "tasks/observer_swift_task.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

static _Atomic uint64_t answered;
static _Atomic uint64_t late;

/* The action replaced last; older ones stay readable for running handlers. */
enum { PREVIOUS_MAX = 16 };
static struct sigaction previous_actions[PREVIOUS_MAX];
static uint32_t previous_count;
static const struct sigaction *_Atomic previous_action;

/* BEGIN ASYNC-SIGNAL-SAFE SECTION. Runs in the handler, on any thread, with any lock held. Uses only plain memory,
 * atomics, raw system calls and clock_gettime. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* Uninstrumented: sanitizers forbid reading other functions' frames. Volatile bytes prevent a call of the
 * sanitizer's memcpy. */
#if defined(SANITIZED)
__attribute__((no_sanitize("address", "thread"))) static void copy_stack(uint8_t *to, const uint8_t *from,
                                                                         size_t length) {
  for (size_t at = 0; at < length; at++)
    to[at] = *(const volatile uint8_t *)(from + at);
}
#else
static void copy_stack(uint8_t *to, const uint8_t *from, size_t length) { memcpy(to, from, length); }
#endif

/* Number of bytes to copy if the stack's end is unknown: up to the thread's own data, which thread libraries put at the
 * stack's end (glibc, nptl/allocatestack.c). */
static size_t bytes_wanted(uint64_t start, size_t capacity) {
  uint64_t end = observer_machine_thread_pointer();
  return start < end && end - start < capacity ? (size_t)(end - start) : capacity;
}

/* Answers REQUEST, in the state COPYING. Returns the final state. */
static enum observer_request_state answer(struct observer_request *request, const void *context, uint64_t began) {
  if (request->slot && observer_slot_work_item(request->slot) != request->item)
    return REQUEST_OVER;
  struct stack_copy *copy = &request->copy;
  observer_machine_registers(context, &copy->registers);
  uint64_t sp = observer_machine_sp(&copy->registers);
  uint64_t start = sp - observer_machine_red_zone();
  copy->stack_start = start;
  copy->stack = request->stack;
  copy->own_low = copy->own_end = copy->own_start = copy->own_bytes = 0;
  if (start >= request->stack_low && sp < request->stack_high) {
    size_t live = (size_t)(request->stack_high - start);
    size_t capacity = request->stack_capacity;
    uint8_t *room = observer_deep_room_or(request->stack, &capacity, request->stack_bytes_max, live);
    copy->stack = room;
    copy->stack_end = request->stack_high;
    copy->truncated = live > capacity;
    copy->stack_bytes = copy->truncated ? capacity : live;
    copy_stack(room, (const uint8_t *)(uintptr_t)start, copy->stack_bytes);
  } else {
    copy->stack_end = sp + OBSERVER_STACK_BYTES_USUAL;
    /* An alternate or coroutine stack, whose end is unknown. The end of its mapping must end the copy, not the
     * process. */
    int context_before = clinux_context;
    clinux_context = CLINUX_HANDLERS_CONTEXT;
    copy->stack_bytes = clinux_memory_read_some(start, request->stack, bytes_wanted(start, request->stack_capacity));
    uint64_t page = observer_copy_page(sp);
    if (copy->stack_bytes == 0 && start < page) {
      copy->stack_start = page;
      copy->stack_bytes = clinux_memory_read_some(page, request->stack, bytes_wanted(page, request->stack_capacity));
    }
    copy->truncated = copy->stack_bytes == request->stack_capacity;
    /* The thread runs a handler on its alternate stack: its own stack, which the handler interrupted, is copied too. */
    const stack_t *alternate = &((const ucontext_t *)context)->uc_stack;
    if (sp - (uint64_t)(uintptr_t)alternate->ss_sp < alternate->ss_size)
      observer_copy_own_stack(copy, request->stack, request->stack_capacity, request->stack_low, request->stack_high);
    clinux_context = context_before;
  }
  copy->blocked_tid = 0;
  observer_swift_task_note(copy);
  copy->taken_ns = began;
  copy->handler_ns = clinux_clock_ns() - began;
  return REQUEST_DONE;
}

/* Uses the system call directly: signals that the C library blocks temporarily must stay blocked. */
static void block(const uint64_t *mask, uint64_t *before) {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, before, sizeof *mask);
}

/* The mask while ACTION handles a signal that interrupted CONTEXT. */
static uint64_t mask_of(const struct sigaction *action, const ucontext_t *context) {
  uint64_t interrupted, added;
  memcpy(&interrupted, &context->uc_sigmask, sizeof interrupted);
  memcpy(&added, &action->sa_mask, sizeof added);
  uint64_t own = action->sa_flags & SA_NODEFER ? 0 : UINT64_C(1) << (OBSERVER_SIGNAL - 1);
  return interrupted | added | own;
}

/* Static thread-local storage: access does not allocate. */
static _Thread_local volatile bool is_passing_on __attribute__((tls_model("initial-exec")));

/* Passes a signal of other code to the former handler, unless that handler is already running on this thread. The
 * default action counts as ignored: it would end the process because of a forgotten profiling timer. */
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

/* Answers request INDEX if it is for the calling thread and unanswered. */
static bool serve(uint32_t index, pid_t tid, const void *context, uint64_t began) {
  struct observer_request *request = &observer_requests[index];
  uint32_t word = atomic_load_explicit(&request->word, memory_order_acquire);
  uint32_t use = word & ~(uint32_t)STATE_MASK;
  if ((word & STATE_MASK) != REQUEST_ARMED || request->tid != tid ||
      !atomic_compare_exchange_strong_explicit(&request->word, &word, use | REQUEST_COPYING, memory_order_acquire,
                                               memory_order_relaxed))
    return false;
  bool is_awaited = request->is_awaited;
  enum observer_request_state state = answer(request, context, began);
  atomic_store_explicit(&request->word, use | (uint32_t)state, memory_order_release);
  if (is_awaited)
    clinux_wake(&request->word);
  return true;
}

/* Answers a request for the calling thread if the request's signal might have arrived without a value. If the handled
 * signal is from other code, our own signal arrives later and is passed on in its place. */
static bool serve_without_value(const siginfo_t *information, bool from_here, pid_t tid, const void *context,
                                uint64_t began) {
  bool is_bare = information->si_code == SI_TKILL && from_here;
  /* The kernel had no memory left for the signal's information (RLIMIT_SIGPENDING). */
  bool is_empty = information->si_code == SI_USER && information->si_pid == 0 && information->si_uid == 0;
  if (!is_bare && !is_empty)
    return false;
  for (uint32_t index = 0; index < REQUESTS_ALL; index++) {
    uint32_t mark = atomic_load_explicit(&observer_requests[index].mark, memory_order_acquire);
    if ((mark == OBSERVER_SIGNAL_BARE || (is_empty && mark == OBSERVER_SIGNAL_QUEUED)) &&
        serve(index, tid, context, began))
      return true;
  }
  return false;
}

static void on_signal(int signal, siginfo_t *information, void *context) {
  int saved_errno = errno;
  uint64_t began = clinux_clock_ns();
  bool from_timer = information->si_code == SI_TIMER;
  bool from_here = from_timer || information->si_pid == (pid_t)syscall(SYS_getpid);
  uint64_t value = (uint64_t)(uintptr_t)information->si_value.sival_ptr;
  bool marked = (from_timer || (from_here && information->si_code == SI_QUEUE)) && value >> 32 == OBSERVER_SIGNAL_MAGIC;
  if (from_timer && value == CPROCESS_ABORT_VALUE) {
    cprocess_abort_expire();
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

int observer_handler_install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK;
  /* Only faults stay unblocked: a nested handler could leave a request half answered (siglongjmp), or overflow a small
   * alternate stack. */
  const int faults[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
  sigfillset(&action.sa_mask);
  for (size_t index = 0; index < sizeof faults / sizeof faults[0]; index++)
    sigdelset(&action.sa_mask, faults[index]);
  struct sigaction current;
  if (sigaction(OBSERVER_SIGNAL, NULL, &current) != 0)
    return errno;
  if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_signal)
    return 0;
  /* Must be stored before our handler can run. */
  struct sigaction *kept = &previous_actions[previous_count++ % PREVIOUS_MAX];
  *kept = current;
  atomic_store_explicit(&previous_action, kept, memory_order_release);
  return sigaction(OBSERVER_SIGNAL, &action, NULL) == 0 ? 0 : errno;
}

static bool is_default_or_ignored(const struct sigaction *action) {
  return !(action->sa_flags & SA_SIGINFO) && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

bool observer_capture_handler_is_ours(void) {
  struct sigaction current;
  return sigaction(OBSERVER_SIGNAL, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
         current.sa_sigaction == on_signal;
}

bool observer_handler_keep(void) {
  if (observer_capture_handler_is_ours())
    return true;
  struct sigaction current;
  return sigaction(OBSERVER_SIGNAL, NULL, &current) == 0 && is_default_or_ignored(&current) &&
         observer_handler_install() == 0;
}

uint64_t observer_capture_answered(void) { return atomic_load_explicit(&answered, memory_order_relaxed); }

uint64_t observer_capture_late(void) { return atomic_load_explicit(&late, memory_order_relaxed); }
