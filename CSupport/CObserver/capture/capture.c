#define _GNU_SOURCE
#include "capture/observer_capture.h"
#include "capture_request.h"
#include "deep_room.h"

#include "capture/observer_signal.h"
#include "clinux_clock.h"
#include "clinux_mask.h"
#include "clinux_thread_pointer.h"
#include "clinux_wait.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

struct observer_request observer_requests[REQUESTS_ALL];

static struct observer_request *own_requests(void) {
  return &observer_requests[clinux_context * OBSERVER_REQUESTS_MAX];
}

static _Atomic bool timers_work;

bool observer_capture_disturbs(void) { return !atomic_load_explicit(&timers_work, memory_order_relaxed); }

static void set_state(struct observer_request *request, enum observer_request_state state) {
  uint32_t use = atomic_load_explicit(&request->word, memory_order_relaxed) & ~(uint32_t)STATE_MASK;
  atomic_store_explicit(&request->word, use | (uint32_t)state, memory_order_release);
}

static void leave_room(struct observer_request *request) {
  if (!observer_deep_room_give_back(request->copy.stack, request->copy.stack_bytes))
    return;
  request->copy.stack = request->stack;
  request->copy.stack_bytes = request->copy.own_bytes = 0;
}

static struct {
  uint8_t *memory;
  size_t capacity; /* of a request's buffer */
  size_t stack_bytes_max;
} rooms[CLINUX_CONTEXTS_MAX];

/* The first TOUCHED_BYTES are touched before the request is sent. */
enum { PAGE = 4096, TOUCHED_BYTES = 32 << 10 };

/* Gives the idle REQUEST its buffer. A smaller former buffer stays mapped, because a late handler might still use
 * it. */
static void give_room(struct observer_request *request) {
  size_t capacity = rooms[clinux_context].capacity;
  request->stack_bytes_max = rooms[clinux_context].stack_bytes_max;
  if (request->stack_capacity >= capacity)
    return;
  if (request->unwiped > 0)
    memset(request->stack, 0, request->unwiped);
  request->unwiped = 0;
  request->stack = rooms[clinux_context].memory + (size_t)(request - own_requests()) * capacity;
  request->copy.stack = request->stack;
  request->stack_capacity = capacity;
  /* Before Linux 6.4 the first access to each page takes the lock of the address space, for which the handler must not
   * wait. */
  for (size_t at = 0; at < capacity && at < TOUCHED_BYTES; at += PAGE)
    ((volatile uint8_t *)request->stack)[at] = 0;
  request->copy.request = (uint32_t)(request - observer_requests);
}

static struct observer_request *free_request(void) {
  for (int index = 0; index < OBSERVER_REQUESTS_MAX; index++) {
    struct observer_request *request = &own_requests()[index];
    uint32_t state = atomic_load_explicit(&request->word, memory_order_acquire) & STATE_MASK;
    if (request->abandoned && (state == REQUEST_DONE || state == REQUEST_OVER)) {
      request->abandoned = false;
      leave_room(request);
      set_state(request, REQUEST_IDLE);
      state = REQUEST_IDLE;
    }
    if (state == REQUEST_IDLE && !request->sent) {
      give_room(request);
      return request;
    }
  }
  return NULL;
}

static bool is_answered(uint32_t word) {
  uint32_t state = word & STATE_MASK;
  return state == REQUEST_DONE || state == REQUEST_OVER;
}

bool observer_capture_is_answered(uint32_t index) {
  return is_answered(atomic_load_explicit(&observer_requests[index].word, memory_order_acquire));
}

bool observer_capture_is_pending(void) {
  for (int index = 0; index < REQUESTS_ALL; index++) {
    uint32_t state = atomic_load_explicit(&observer_requests[index].word, memory_order_acquire) & STATE_MASK;
    if (state == REQUEST_ARMED || state == REQUEST_COPYING)
      return true;
  }
  return false;
}

static void await(const struct observer_request *request, uint64_t deadline_ns) {
  for (;;) {
    uint32_t word = atomic_load_explicit(&request->word, memory_order_acquire);
    if (is_answered(word) || clinux_clock_ns() >= deadline_ns)
      return;
    clinux_wait(&request->word, word, deadline_ns);
  }
}

static int send_signal(struct observer_thread *thread, struct observer_request *request, enum observer_send_when when) {
  if (!observer_thread_hold(thread))
    return ESRCH;
  if (!observer_thread_remains(thread)) {
    observer_thread_let_go(thread);
    return ESRCH;
  }
  uint64_t value = OBSERVER_SIGNAL_MAGIC << 32 | (uint64_t)(request - observer_requests);
  int error = ENOTSUP;
  if (when != OBSERVER_SEND_NOW)
    error = observer_signal_when_running(request->tid, OBSERVER_SIGNAL, value, &request->timer);
  /* A signal without a timer disturbs the thread, so it is sent only if timers never work, not if RLIMIT_SIGPENDING is
   * exhausted. */
  bool may_disturb = when == OBSERVER_SEND_NOW || !atomic_load_explicit(&timers_work, memory_order_relaxed);
  if (error != 0 && error != ESRCH && when != OBSERVER_SEND_WHEN_RUNNING && may_disturb)
    error = observer_signal_now(request->tid, OBSERVER_SIGNAL, value, &request->mark);
  observer_thread_let_go(thread);
  return error;
}

/* Time for which a thread seen blocking our signal is assumed to keep blocking it. Long enough for a
 * signal handler to return. */
static const uint64_t block_known_ns = 100000000;
/* Used instead of block_known_ns if a block is observed again within that time. On a busy machine a thread can take
 * long to leave sigwaitinfo(2), and until then does not appear to block our signal. */
static const uint64_t block_confirmed_ns = 1000000000;

/* Returns OBSERVER_NO_ANSWER if THREAD blocks our signal, because the service's next sigwaitinfo(2) would receive the
 * signal.
 *
 * A thread in sigwaitinfo(2) does not appear to block the awaited signal, so an observed block is remembered. Without a
 * remembered observation, THREAD is checked for up to a millisecond. If THREAD sleeps in another system call, or runs
 * without sleeping, it is not in sigwaitinfo(2). If neither is observed, returns OBSERVER_ASLEEP if THREAD sleeps at
 * the last check or ever blocked the signal. */
static enum observer_capture_status check_mask(struct observer_thread *thread, int32_t tid) {
  uint64_t now = clinux_clock_ns();
  uint64_t until = atomic_load_explicit(&thread->kept_out_until_ns, memory_order_relaxed);
  uint64_t in = atomic_load_explicit(&thread->let_in_ns, memory_order_relaxed);
  uint64_t first_sleeps;
  enum clinux_mask_answer answer = clinux_mask_ask(tid, OBSERVER_SIGNAL, &first_sleeps);
  uint64_t used = clinux_clock_thread_cpu_ns(tid);
  bool is_remembered = in != 0 && now - in < OBSERVER_MASK_KNOWN_NS;
  bool is_known = is_remembered;
  for (int attempt = 0; answer != CLINUX_MASK_KEEPS_OUT && !is_known && attempt < 10; attempt++) {
    /* A thread that sleeps often might never be observed running without sleep. */
    if (answer == CLINUX_MASK_MAY_WAIT && clinux_mask_lets_in_asleep(tid, OBSERVER_SIGNAL)) {
      is_known = true;
      break;
    }
    struct timespec moment = {.tv_nsec = 100000};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
    bool has_run = clinux_clock_thread_cpu_ns(tid) > used;
    uint64_t sleeps;
    answer = clinux_mask_ask(tid, OBSERVER_SIGNAL, &sleeps);
    is_known = has_run && sleeps == first_sleeps && answer == CLINUX_MASK_LETS_IN;
    if (sleeps != first_sleeps) {
      first_sleeps = sleeps;
      used = clinux_clock_thread_cpu_ns(tid);
    }
  }
  if (answer == CLINUX_MASK_KEEPS_OUT) {
    atomic_store_explicit(&thread->let_in_ns, 0, memory_order_relaxed);
    uint64_t known_ns = now < until ? block_confirmed_ns : block_known_ns;
    if (until < now + known_ns)
      atomic_store_explicit(&thread->kept_out_until_ns, now + known_ns, memory_order_relaxed);
    return OBSERVER_NO_ANSWER;
  }
  if (is_known && !is_remembered)
    atomic_store_explicit(&thread->let_in_ns, now, memory_order_relaxed);
  if (now < until)
    return OBSERVER_NO_ANSWER;
  bool might_wait = answer == CLINUX_MASK_MAY_WAIT || until != 0;
  return might_wait && !is_known ? OBSERVER_ASLEEP : OBSERVER_CAPTURED;
}

static enum observer_capture_status ask(struct observer_thread *thread, const struct observer_slot *slot, uint64_t item,
                                        enum observer_send_when when, bool is_awaited, uint32_t *index) {
  if (!thread || !observer_thread_is_live(thread))
    return OBSERVER_THREAD_GONE;
  if (!observer_handler_keep())
    return OBSERVER_HANDLER_REPLACED;
  int32_t tid = atomic_load_explicit(&thread->tid, memory_order_relaxed);
  if (when != OBSERVER_SEND_NOW) {
    enum observer_capture_status mask = check_mask(thread, tid);
    if (mask == OBSERVER_NO_ANSWER || (mask == OBSERVER_ASLEEP && when == OBSERVER_SEND_SEEN_RUNNING))
      return mask;
  }
  uint32_t room = atomic_load_explicit(&thread->room, memory_order_relaxed);
  if (room == OBSERVER_ROOM_LACKING || (room == OBSERVER_ROOM_UNKNOWN && !observer_thread_can_answer(tid)))
    return OBSERVER_NOT_SIGNALLED;
  struct observer_request *request = free_request();
  if (!request)
    return OBSERVER_REQUESTS_STUCK;
  request->thread = thread;
  request->thread_use = observer_thread_use(thread);
  request->tid = tid;
  request->slot = slot;
  request->item = item;
  request->is_awaited = is_awaited;
  request->stack_low = atomic_load_explicit(&thread->stack_low, memory_order_relaxed);
  request->stack_high = atomic_load_explicit(&thread->stack_high, memory_order_relaxed);
  request->timer = OBSERVER_NO_TIMER;
  atomic_store_explicit(&request->mark, OBSERVER_SIGNAL_TIMED, memory_order_relaxed);
  uint32_t use = (atomic_load_explicit(&request->word, memory_order_relaxed) & ~(uint32_t)STATE_MASK) + USE_STEP;
  atomic_store_explicit(&request->word, use | REQUEST_ARMED, memory_order_release);
  request->sent = true;
  *index = (uint32_t)(request - observer_requests);
  int error = send_signal(thread, request, when);
  if (error == 0)
    return OBSERVER_CAPTURED;
  /* Withdraws the request, unless a late signal is answering it. */
  const struct stack_copy *copy = NULL;
  if (observer_capture_collect(*index, &copy) == OBSERVER_CAPTURED)
    observer_capture_release(copy);
  return error == ESRCH ? OBSERVER_THREAD_GONE : OBSERVER_NOT_SIGNALLED;
}

enum observer_capture_status observer_capture_send(struct observer_thread *thread, const struct observer_slot *slot,
                                                   uint64_t item, enum observer_send_when when, uint32_t *index) {
  return ask(thread, slot, item, when, false, index);
}

enum observer_capture_status observer_capture_collect(uint32_t index, const struct stack_copy **copy) {
  struct observer_request *request = &observer_requests[index];
  observer_signal_cancel(request->timer);
  request->timer = OBSERVER_NO_TIMER;
  uint32_t word = atomic_load_explicit(&request->word, memory_order_acquire);
  while ((word & STATE_MASK) == REQUEST_ARMED &&
         !atomic_compare_exchange_weak_explicit(&request->word, &word, word - REQUEST_ARMED + REQUEST_IDLE,
                                                memory_order_acquire, memory_order_acquire))
    continue;
  switch (word & STATE_MASK) {
  case REQUEST_DONE:
    /* Another thread that has since got this ID might have answered. */
    if (!observer_thread_is_still(request->thread, request->thread_use)) {
      leave_room(request);
      set_state(request, REQUEST_IDLE);
      request->sent = false;
      return OBSERVER_THREAD_GONE;
    }
    *copy = &request->copy;
    return OBSERVER_CAPTURED;
  case REQUEST_OVER:
    set_state(request, REQUEST_IDLE);
    request->sent = false;
    return OBSERVER_WORK_ITEM_OVER;
  case REQUEST_ARMED: /* no handler will answer */
    request->sent = false;
    return OBSERVER_NO_ANSWER;
  default: /* the thread is stopped while answering */
    request->abandoned = true;
    request->sent = false;
    request->unwiped = request->stack_capacity;
    return OBSERVER_NO_ANSWER;
  }
}

enum observer_capture_status observer_capture(struct observer_thread *thread, const struct observer_slot *slot,
                                              uint64_t item, uint64_t timeout_ns, const struct stack_copy **copy) {
  uint32_t index;
  enum observer_capture_status status = ask(thread, slot, item, OBSERVER_SEND_NOW, true, &index);
  if (status != OBSERVER_CAPTURED)
    return status;
  await(&observer_requests[index], clinux_clock_ns() + timeout_ns);
  return observer_capture_collect(index, copy);
}

void observer_capture_release(const struct stack_copy *copy) {
  if (copy->request >= REQUESTS_ALL) {
    if (!observer_deep_room_give_back(copy->stack, copy->stack_bytes))
      observer_copy_wipe(copy);
    return;
  }
  struct observer_request *request = &observer_requests[copy->request];
  leave_room(request);
  size_t bytes = copy->stack_bytes + copy->own_bytes;
  if (request->unwiped < bytes)
    request->unwiped = bytes;
  set_state(request, REQUEST_IDLE);
  request->sent = false;
}

void observer_capture_wipe(void) {
  for (int index = 0; index < OBSERVER_REQUESTS_MAX; index++) {
    struct observer_request *request = &own_requests()[index];
    uint32_t state = atomic_load_explicit(&request->word, memory_order_acquire) & STATE_MASK;
    bool is_free = state == REQUEST_IDLE || (request->abandoned && is_answered(state));
    if (is_free && !request->sent)
      leave_room(request);
    if (request->unwiped == 0 || request->sent || !is_free)
      continue;
    memset(request->stack, 0, request->unwiped);
    request->unwiped = 0;
  }
  observer_deep_room_wipe();
}

/* After fork(2) the buffers are not mapped. */
static void forget_parent(void) {
  clinux_context_forget_parent();
  observer_deep_room_forget_parent();
  memset(rooms, 0, sizeof rooms);
  for (int index = 0; index < REQUESTS_ALL; index++) {
    observer_requests[index].sent = observer_requests[index].abandoned = false;
    observer_requests[index].timer = OBSERVER_NO_TIMER;
    observer_requests[index].copy.stack = observer_requests[index].stack = NULL;
    observer_requests[index].stack_capacity = observer_requests[index].unwiped = 0;
    set_state(&observer_requests[index], REQUEST_IDLE);
  }
}

int observer_capture_prepare(size_t stack_bytes_max) {
  size_t capacity = stack_bytes_max < OBSERVER_USUAL_ROOM_BYTES ? stack_bytes_max : OBSERVER_USUAL_ROOM_BYTES;
  observer_deep_room_map(stack_bytes_max);
  rooms[clinux_context].stack_bytes_max = stack_bytes_max;
  if (rooms[clinux_context].capacity >= capacity)
    return 0;
  uint8_t *memory = observer_copy_map(capacity * OBSERVER_REQUESTS_MAX);
  if (!memory)
    return errno;
  rooms[clinux_context].memory = memory;
  rooms[clinux_context].capacity = capacity;
  return 0;
}

int observer_capture_start(size_t stack_bytes_max) {
  if (!cunwind_host())
    return ENOTSUP;
  static bool is_guarded;
  if (!is_guarded)
    is_guarded = pthread_atfork(NULL, NULL, forget_parent) == 0;
  atomic_store_explicit(&timers_work, observer_signal_timers_work(), memory_order_relaxed);
  clinux_thread_pointer_start();
  int error = observer_capture_prepare(stack_bytes_max);
  if (error == 0)
    error = observer_handler_install();
  if (error != 0)
    return error;
  struct observer_thread *self = observer_thread_current();
  if (!self)
    return ENOMEM;
  if (atomic_load_explicit(&self->room, memory_order_relaxed) != OBSERVER_ROOM_ENOUGH)
    return ENOBUFS;
  sigset_t ours, before;
  sigemptyset(&ours);
  sigaddset(&ours, OBSERVER_SIGNAL);
  pthread_sigmask(SIG_UNBLOCK, &ours, &before);
  const struct stack_copy *copy = NULL;
  enum observer_capture_status status = observer_capture(self, NULL, OBSERVER_IDLE, UINT64_C(1000000000), &copy);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (status != OBSERVER_CAPTURED)
    return status == OBSERVER_NOT_SIGNALLED ? EPERM : ETIMEDOUT;
  observer_capture_release(copy);
  observer_capture_wipe();
  return 0;
}
