#define _GNU_SOURCE
#include "cprocess_pending.h"

#include "clinux_clock.h"
#include "clinux_mask.h"
#include "clinux_process.h"
#include "clinux_wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum line_state { LINE_FREE = 0, LINE_WRITTEN = 1, LINE_READY = 2, LINE_PRINTED = 3 };

static struct {
  _Atomic uint32_t state; /* the other fields belong to the thread that has set it to LINE_WRITTEN or LINE_PRINTED */
  _Atomic uint64_t number;
  size_t bytes;
  char text[CPROCESS_LINE_BYTES];
} lines[CPROCESS_LINES_MAX];

/* The report that the thread has delivered last. Not allocated at first use, which might be in an exit handler. */
static _Thread_local uint64_t delivered __attribute__((tls_model("initial-exec")));

/* Number of pending reports without a line. */
static _Atomic uint32_t left_out;
/* Changes when a line is removed. */
static _Atomic uint32_t changes;

/* The process to which the lines belong: a child of fork inherits its parent's. */
static _Atomic uint32_t lines_process;

/* Decrements the number of reports without a line. */
static void found_place(void) {
  uint32_t count = atomic_load(&left_out);
  while (count > 0 && !atomic_compare_exchange_weak(&left_out, &count, count - 1))
    ;
}

void cprocess_pending_put(uint64_t number, bool is_new, const char *text, size_t bytes) {
  int place = -1;
  uint32_t state = LINE_READY;
  for (int index = 0; index < CPROCESS_LINES_MAX && place < 0; index++, state = LINE_READY)
    if (atomic_load(&lines[index].number) == number && atomic_load(&lines[index].state) != LINE_FREE) {
      if (!atomic_compare_exchange_strong(&lines[index].state, &state, LINE_WRITTEN))
        return; /* it is being printed */
      place = index;
    }
  bool is_found = place >= 0;
  state = LINE_FREE;
  for (int index = 0; index < CPROCESS_LINES_MAX && place < 0; index++, state = LINE_FREE)
    if (atomic_compare_exchange_strong(&lines[index].state, &state, LINE_WRITTEN))
      place = index;
  if (place < 0) {
    if (is_new)
      atomic_fetch_add(&left_out, 1);
    return;
  }
  if (!is_found && !is_new)
    found_place();
  atomic_store(&lines[place].number, number);
  if (bytes > CPROCESS_LINE_BYTES) {
    bytes = CPROCESS_LINE_BYTES - 1;
    /* 10xxxxxx is a continuation byte in UTF-8. */
    while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
      bytes--;
    lines[place].text[bytes] = '\n';
    memcpy(lines[place].text, text, bytes);
    lines[place].bytes = bytes + 1;
  } else {
    memcpy(lines[place].text, text, bytes);
    lines[place].bytes = bytes;
  }
  atomic_store(&lines[place].state, LINE_READY);
}

void cprocess_pending_remove(uint64_t number) {
  bool is_found = false;
  for (int index = 0; index < CPROCESS_LINES_MAX; index++) {
    uint32_t state = LINE_READY;
    if (atomic_load(&lines[index].number) == number)
      is_found = is_found || atomic_compare_exchange_strong(&lines[index].state, &state, LINE_FREE);
  }
  if (!is_found)
    found_place();
  clinux_notify(&changes);
}

void cprocess_pending_deliver(uint64_t number) { delivered = number; }

/* BEGIN ASYNC-SIGNAL-SAFE SECTION Runs in the exit handler and in signal handlers, on any thread, with any lock held.
 * Allowed: plain memory, atomics, bare system calls, clock_gettime. Forbidden: locks, allocation, stdio, anything that
 * might enter the loader or a language runtime. */

void cprocess_pending_remove_delivered(void) {
  if (delivered != 0)
    cprocess_pending_remove(delivered);
  delivered = 0;
}

uint32_t cprocess_pending_word(void) { return clinux_word(&changes); }

void cprocess_pending_wait(uint32_t seen, uint64_t deadline_ns) { clinux_wait(&changes, seen, deadline_ns); }

void cprocess_pending_wake(void) { clinux_notify(&changes); }

bool cprocess_pending_any(void) {
  if (!clinux_process_is(atomic_load(&lines_process)))
    return false;
  for (int index = 0; index < CPROCESS_LINES_MAX; index++)
    if (atomic_load(&lines[index].state) != LINE_FREE)
      return true;
  return atomic_load(&left_out) > 0;
}

/* Writes the BYTES bytes of TEXT to standard error. Gives up if it accepts none until DEADLINE_NS. */
static void print(const char *text, size_t bytes, uint64_t deadline_ns) {
  while (bytes > 0) {
    uint64_t now = clinux_clock_ns();
    uint64_t left_ms = now < deadline_ns ? (deadline_ns - now) / 1000000 : 0;
    struct pollfd place = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready = poll(&place, 1, left_ms < 50 ? (int)left_ms : 50);
    if (ready > 0 && (place.revents & POLLOUT) != 0) {
      /* A pipe that is ready accepts this much at once (pipe(7)). */
      ssize_t written = clinux_write(STDERR_FILENO, text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
      if (written < 0 && errno != EINTR && errno != EAGAIN)
        return;
      text += written > 0 ? written : 0;
      bytes -= written > 0 ? (size_t)written : 0;
    } else if (ready > 0 || left_ms == 0) {
      return;
    }
  }
}

void cprocess_pending_print(uint64_t deadline_ns) {
  if (!clinux_process_is(atomic_load(&lines_process)))
    return;
  int saved_errno = errno;
  cprocess_pending_remove_delivered();
  for (int index = 0; index < CPROCESS_LINES_MAX; index++) {
    uint32_t state = LINE_READY;
    if (!atomic_compare_exchange_strong(&lines[index].state, &state, LINE_PRINTED))
      continue;
    print(lines[index].text, lines[index].bytes, deadline_ns);
    atomic_store(&lines[index].state, LINE_FREE);
  }
  if (atomic_exchange(&left_out, 0) > 0) {
    static const char more[] = "culprit: more stalls than these have no report\n";
    print(more, sizeof more - 1, deadline_ns);
  }
  clinux_notify(&changes);
  errno = saved_errno;
}

/* END ASYNC-SIGNAL-SAFE SECTION */

void cprocess_pending_start(void) {
  if (clinux_process_is(atomic_load(&lines_process)))
    return;
  for (int index = 0; index < CPROCESS_LINES_MAX; index++)
    atomic_store(&lines[index].state, LINE_FREE);
  atomic_store(&left_out, 0);
  atomic_store(&lines_process, clinux_process_stamp());
}
