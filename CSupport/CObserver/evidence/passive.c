#define _GNU_SOURCE
#include "evidence/observer_descriptor.h"
#include "evidence/observer_passive.h"

#include "../capture/deep_room.h"
#include "../capture/own_stack.h"
#include "clinux_clock.h"
#include "clinux_context.h"
#include "clinux_memory.h"
#include "clinux_task.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct room {
  uint8_t *stack;
  size_t capacity;
  size_t stack_bytes_max;
  struct stack_copy copy;
} rooms[CLINUX_CONTEXTS_MAX];

static struct room *here(void) { return &rooms[clinux_context]; }

/* Parses an unsigned number (%d, %ld or 0x%lx), after any spaces. */
static bool take_number(const char **text, const char *end, uint64_t *value) {
  const char *at = *text;
  while (at < end && *at == ' ')
    at++;
  uint64_t base = 10, result = 0;
  if (end - at > 2 && at[0] == '0' && at[1] == 'x') {
    base = 16;
    at += 2;
  }
  const char *digits = at;
  for (; at < end; at++) {
    uint64_t digit = *at >= '0' && *at <= '9'                 ? (uint64_t)(*at - '0')
                     : base == 16 && *at >= 'a' && *at <= 'f' ? (uint64_t)(*at - 'a' + 10)
                                                              : 16;
    if (digit >= base)
      break;
    result = result * base + digit;
  }
  *text = at;
  *value = result;
  return at > digits;
}

int32_t observer_awaited_descriptor(const struct observer_thread_status *status) {
  return observer_descriptor_number(status->call, status->arguments);
}

void observer_awaited_path(const struct observer_thread_status *status, struct observer_descriptor *descriptor) {
  observer_path_read(status->call, status->arguments, descriptor);
}

void observer_awaited_lock(int32_t tid, const struct observer_thread_status *status, struct observer_lock *lock) {
  observer_lock_find(tid, status->call, status->arguments, lock);
}

struct observer_thread_status observer_thread_status_parse(const char *text, size_t length) {
  struct observer_thread_status seen = {.activity = OBSERVER_ACTIVITY_UNKNOWN};
  const char *end = text + length;
  if (length >= 7 && memcmp(text, "running", 7) == 0) {
    seen.activity = OBSERVER_RUNNING;
    return seen;
  }
  bool outside = length >= 2 && text[0] == '-' && text[1] == '1';
  uint64_t number = 0;
  if (outside)
    text += 2;
  else if (!take_number(&text, end, &number))
    return seen;
  for (int index = 0; !outside && index < 6; index++)
    if (!take_number(&text, end, &seen.arguments[index]))
      return seen;
  if (!take_number(&text, end, &seen.sp) || !take_number(&text, end, &seen.pc))
    return seen;
  seen.call = outside ? -1 : (int64_t)number;
  seen.activity = outside ? OBSERVER_BLOCKED : OBSERVER_IN_CALL;
  return seen;
}

/* A child of fork(2) does not inherit the buffers. */
static void forget_parent(void) { memset(rooms, 0, sizeof rooms); }

int observer_passive_start(size_t stack_bytes_max) {
  static bool is_guarded;
  if (!is_guarded)
    is_guarded = pthread_atfork(NULL, NULL, forget_parent) == 0;
  size_t usual = stack_bytes_max < OBSERVER_USUAL_ROOM_BYTES ? stack_bytes_max : OBSERVER_USUAL_ROOM_BYTES;
  here()->stack_bytes_max = stack_bytes_max;
  if (here()->capacity >= usual)
    return 0;
  uint8_t *memory = observer_copy_map(usual);
  if (!memory)
    return errno;
  if (here()->stack)
    munmap(here()->stack, here()->capacity);
  here()->stack = memory;
  here()->capacity = usual;
  return 0;
}

static struct observer_thread_status read_status(int descriptor) {
  char text[256];
  long count = descriptor < 0 ? -1 : syscall(SYS_pread64, descriptor, text, sizeof text, 0L);
  return observer_thread_status_parse(text, count > 0 ? (size_t)count : 0);
}

static bool same_status(const struct observer_thread_status *one, const struct observer_thread_status *other) {
  return one->activity == other->activity && one->call == other->call && one->sp == other->sp && one->pc == other->pc &&
         memcmp(one->arguments, other->arguments, sizeof one->arguments) == 0;
}

static bool is_blocked(const struct observer_thread_status *seen) {
  return seen->activity == OBSERVER_IN_CALL || seen->activity == OBSERVER_BLOCKED;
}

/* Whether the thread waits for signals that include ours. Such a thread blocks our signal, although its mask does not
 * show this. */
static bool waits_for_our_signal(const struct observer_thread_status *seen) {
  uint64_t awaited;
  return seen->activity == OBSERVER_IN_CALL && seen->call == SYS_rt_sigtimedwait &&
         (!clinux_memory_read(seen->arguments[0], &awaited, sizeof awaited) ||
          (awaited & UINT64_C(1) << (OBSERVER_SIGNAL - 1)) != 0);
}

static bool copy_stack(struct observer_thread *thread, const struct observer_thread_status *seen) {
  struct stack_copy *copy = &here()->copy;
  uint64_t low = atomic_load_explicit(&thread->stack_low, memory_order_relaxed);
  uint64_t high = atomic_load_explicit(&thread->stack_high, memory_order_relaxed);
  uint64_t start = seen->sp - observer_machine_red_zone();
  uint64_t page = observer_copy_page(seen->sp);
  /* Reading below the main thread's stack would make the stack grow, and wait for the lock of the address space. */
  if (start < page && atomic_load_explicit(&thread->tid, memory_order_relaxed) == (pid_t)syscall(SYS_getpid))
    start = page;
  memset(copy, 0, sizeof *copy);
  cunwind_set_blocked(cunwind_host(), &copy->registers, seen->sp, seen->pc);
  if (seen->activity == OBSERVER_IN_CALL)
    cunwind_set_arguments(cunwind_host(), &copy->registers, seen->arguments);
  copy->stack = here()->stack;
  copy->request = UINT32_MAX;
  copy->taken_ns = clinux_clock_ns();
  copy->stack_start = start;
  if (start >= low && seen->sp < high) {
    uint64_t live = high - start;
    size_t capacity = here()->capacity;
    uint8_t *room = observer_deep_room_or(here()->stack, &capacity, here()->stack_bytes_max, live);
    copy->stack = room;
    copy->stack_end = high;
    copy->truncated = live > capacity;
    copy->stack_bytes = copy->truncated ? capacity : live;
    if (clinux_memory_read(start, room, copy->stack_bytes))
      return true;
    if (start >= page)
      return false;
    live = high - page;
    copy->stack_start = page;
    copy->truncated = live > capacity;
    copy->stack_bytes = copy->truncated ? capacity : live;
    return clinux_memory_read(page, room, copy->stack_bytes);
  }
  copy->stack_end = seen->sp + OBSERVER_STACK_BYTES_USUAL;
  copy->stack_bytes = clinux_memory_read_some(start, here()->stack, here()->capacity);
  if (copy->stack_bytes == 0 && start < page) {
    copy->stack_start = page;
    copy->stack_bytes = clinux_memory_read_some(page, here()->stack, here()->capacity);
  }
  copy->truncated = copy->stack_bytes == here()->capacity;
  observer_copy_own_stack(copy, here()->stack, here()->capacity, low, high);
  return copy->stack_bytes > 0;
}

enum observer_capture_status observer_capture_passively(struct observer_thread *thread,
                                                        const struct observer_slot *slot, uint64_t item,
                                                        struct observer_thread_status *seen,
                                                        const struct stack_copy **copy) {
  memset(seen, 0, sizeof *seen);
  if (!thread || !observer_thread_hold(thread))
    return OBSERVER_THREAD_GONE;
  pid_t tid = atomic_load_explicit(&thread->tid, memory_order_relaxed);
  struct clinux_descriptor descriptor = clinux_task_open_file(tid, "/syscall");
  enum observer_capture_status status = OBSERVER_NOT_BLOCKED;
  bool is_copied = false;
  /* Unchanged status and CPU time prove that the thread has not run during the copy. */
  uint64_t used = clinux_clock_thread_cpu_ns(tid);
  *seen = read_status(descriptor.number);
  if (waits_for_our_signal(seen))
    atomic_store_explicit(&thread->kept_out_until_ns, clinux_clock_ns() + OBSERVER_MASK_KNOWN_NS, memory_order_relaxed);
  bool is_doubtful = seen->activity == OBSERVER_ACTIVITY_UNKNOWN || observer_thread_may_be_another(thread);
  if (descriptor.number >= 0 && is_doubtful && !observer_thread_remains(thread)) {
    status = OBSERVER_THREAD_GONE;
  } else if (seen->activity == OBSERVER_ACTIVITY_UNKNOWN) {
    status = OBSERVER_STATE_UNKNOWN;
  } else if (is_blocked(seen)) {
    is_copied = !slot || observer_slot_work_item(slot) == item;
    if (!is_copied) {
      status = OBSERVER_WORK_ITEM_OVER;
    } else if (copy_stack(thread, seen)) {
      struct observer_thread_status after = read_status(descriptor.number);
      if (same_status(seen, &after) && clinux_clock_thread_cpu_ns(tid) == used)
        status = OBSERVER_CAPTURED;
      else
        seen->activity = OBSERVER_RUNNING;
    } else {
      status = OBSERVER_UNREADABLE;
    }
  }
  clinux_descriptor_close(&descriptor);
  observer_thread_let_go(thread);
  here()->copy.blocked_tid = tid;
  here()->copy.blocked_used_ns = used;
  if (status == OBSERVER_CAPTURED)
    *copy = &here()->copy;
  else if (is_copied)
    observer_capture_release(&here()->copy);
  return status;
}
