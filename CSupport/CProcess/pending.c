#define _GNU_SOURCE
#include "cprocess_pending.h"

#include "clinux_clock.h"
#include "clinux_process.h"
#include "clinux_wait.h"
#include "cprocess_abort.h"

#include <stdatomic.h>
#include <string.h>

enum line_state { LINE_FREE = 0, LINE_WRITTEN = 1, LINE_READY = 2, LINE_PRINTED = 3 };

static struct {
  _Atomic uint32_t state;
  _Atomic uint64_t number;
  _Atomic bool is_of_thread;
  struct cprocess_pending_stall stall;
  size_t bytes, age_place;
  char text[CPROCESS_LINE_BYTES];
} lines[CPROCESS_LINES_MAX];

static uint64_t (*_Atomic age_of)(uint32_t slot, uint64_t item);

/* Static thread-local storage: the first use might be in an exit handler, which must not allocate. */
static _Thread_local uint64_t delivered __attribute__((tls_model("initial-exec")));

static _Atomic uint32_t left_out;
static _Atomic uint32_t changes;

/* The process to which the lines belong. A child of fork(2) inherits the lines but must not print them. */
static _Atomic uint32_t lines_process;

static void found_place(void) {
  uint32_t count = atomic_load(&left_out);
  while (count > 0 && !atomic_compare_exchange_weak(&left_out, &count, count - 1))
    ;
}

static int take_known(uint64_t number) {
  for (int index = 0; index < CPROCESS_LINES_MAX; index++)
    if (atomic_load(&lines[index].number) == number && atomic_load(&lines[index].state) != LINE_FREE) {
      uint32_t state = LINE_READY;
      return atomic_compare_exchange_strong(&lines[index].state, &state, LINE_WRITTEN) ? index : -2;
    }
  return -1;
}

/* Takes a line in the WANTED state. Returns its index, or -1. */
static int take(uint32_t wanted) {
  for (int index = 0; index < CPROCESS_LINES_MAX; index++) {
    uint32_t state = wanted;
    if (wanted == LINE_READY && atomic_load(&lines[index].is_of_thread))
      continue;
    if (atomic_compare_exchange_strong(&lines[index].state, &state, LINE_WRITTEN))
      return index;
  }
  return -1;
}

/* Truncates between UTF-8 characters. */
static size_t copy(char *to, size_t room, const char *text, size_t bytes) {
  if (bytes > room) {
    bytes = room;
    while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
      bytes--;
  }
  memcpy(to, text, bytes);
  return bytes;
}

void cprocess_pending_put(uint64_t number, bool is_new, const struct cprocess_pending_stall *stall, const char *head,
                          size_t head_bytes, const char *tail, size_t tail_bytes) {
  int place = take_known(number);
  if (place == -2)
    return;
  bool is_found = place >= 0;
  if (place < 0)
    place = take(LINE_FREE);
  if (place < 0 && stall->is_of_thread && (place = take(LINE_READY)) >= 0)
    atomic_fetch_add(&left_out, 1);
  if (place < 0) {
    if (is_new)
      atomic_fetch_add(&left_out, 1);
    return;
  }
  if (!is_found && !is_new)
    found_place();
  atomic_store(&lines[place].number, number);
  atomic_store(&lines[place].is_of_thread, stall->is_of_thread);
  lines[place].stall = *stall;
  lines[place].age_place = copy(lines[place].text, CPROCESS_LINE_BYTES, head, head_bytes);
  lines[place].bytes = lines[place].age_place + copy(lines[place].text + lines[place].age_place,
                                                     CPROCESS_LINE_BYTES - lines[place].age_place, tail, tail_bytes);
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

/* BEGIN ASYNC-SIGNAL-SAFE SECTION. Uses no locks, allocation, stdio, loader or language runtime: interrupted code might
 * hold any lock. */

static bool take_one_off(uint64_t number) {
  int place = take_known(number);
  if (place < 0)
    return false;
  bool is_left = lines[place].stall.more > 0;
  if (is_left)
    lines[place].stall.more--;
  atomic_store(&lines[place].state, LINE_READY);
  return is_left;
}

void cprocess_pending_remove_delivered(void) {
  if (delivered != 0 && !take_one_off(delivered))
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

struct text {
  size_t length;
  char bytes[CPROCESS_LINE_BYTES + 128];
};

static void add(struct text *text, const char *part, size_t bytes) {
  text->length += copy(text->bytes + text->length, sizeof text->bytes - 1 - text->length, part, bytes);
}

static void add_string(struct text *text, const char *part) { add(text, part, strlen(part)); }

static void add_number(struct text *text, uint64_t number, int digits) {
  char characters[20];
  size_t place = sizeof characters;
  for (; number != 0 || digits > 0; number /= 10, digits--)
    characters[--place] = (char)('0' + number % 10);
  add(text, characters + place, sizeof characters - place);
}

static void add_duration(struct text *text, uint64_t ns) {
  uint64_t ms = (ns + 500000) / 1000000, seconds = ms / 1000;
  if (seconds >= 360000) {
    add_number(text, seconds / 86400, 1);
    add_string(text, " d");
  } else if (seconds >= 3600) {
    add_number(text, seconds / 3600, 1);
    add_string(text, " h ");
    add_number(text, seconds % 3600 / 60, 1);
    add_string(text, " min");
  } else if (seconds >= 100) {
    add_number(text, (ms + 500) / 1000, 1);
    add_string(text, " s");
  } else if (seconds >= 1) {
    uint64_t hundredths = (ms + 5) / 10;
    add_number(text, hundredths / 100, 1);
    add_string(text, ".");
    add_number(text, hundredths % 100, 2);
    add_string(text, " s");
  } else {
    add_number(text, ms, 1);
    add_string(text, " ms");
  }
}

static void print_line(int index, uint64_t deadline_ns) {
  struct text text = {.length = 0};
  const struct cprocess_pending_stall *stall = &lines[index].stall;
  add(&text, lines[index].text, lines[index].age_place);
  if (stall->item != 0) {
    uint64_t (*age)(uint32_t, uint64_t) = atomic_load(&age_of);
    uint64_t age_ns = age ? age(stall->slot, stall->item) : 0;
    if (age_ns == 0)
      add_string(&text, "at least ");
    add_duration(&text, age_ns > stall->age_ns ? age_ns : stall->age_ns);
  }
  add(&text, lines[index].text + lines[index].age_place, lines[index].bytes - lines[index].age_place);
  if (stall->more > 0) {
    add_string(&text, "; ");
    add_number(&text, stall->more, 1);
    add_string(&text, " more of this name");
  }
  text.bytes[text.length++] = '\n';
  cprocess_print(text.bytes, text.length, deadline_ns);
}

void cprocess_pending_print(uint64_t deadline_ns) {
  if (!clinux_process_is(atomic_load(&lines_process)))
    return;
  cprocess_pending_remove_delivered();
  /* Stalls of threads first: other work might wait for a stuck thread. */
  for (int pass = 0; pass < 2; pass++)
    for (int index = 0; index < CPROCESS_LINES_MAX; index++) {
      uint32_t state = LINE_READY;
      if ((pass == 0 && !atomic_load(&lines[index].is_of_thread)) ||
          !atomic_compare_exchange_strong(&lines[index].state, &state, LINE_PRINTED))
        continue;
      print_line(index, deadline_ns);
      atomic_store(&lines[index].state, LINE_FREE);
    }
  if (atomic_exchange(&left_out, 0) > 0) {
    static const char more[] = "culprit: more stalls than these have no report\n";
    cprocess_print(more, sizeof more - 1, deadline_ns);
  }
  clinux_notify(&changes);
}

/* END ASYNC-SIGNAL-SAFE SECTION */

void cprocess_pending_start(uint64_t (*age)(uint32_t slot, uint64_t item)) {
  atomic_store(&age_of, age);
  if (clinux_process_is(atomic_load(&lines_process)))
    return;
  for (int index = 0; index < CPROCESS_LINES_MAX; index++)
    atomic_store(&lines[index].state, LINE_FREE);
  atomic_store(&left_out, 0);
  atomic_store(&lines_process, clinux_process_stamp());
}
