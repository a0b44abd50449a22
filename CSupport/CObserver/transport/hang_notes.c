#include "transport/observer_hang_notes.h"

#include "clinux_clock.h"
#include "cprocess_crash.h"
#include "slots/observer_stall.h"
#include "transport/observer_last_stacks.h"

#include <string.h>

enum { NOTED_MAX = 32, LINES_BYTES_MAX = 512 << 10 };
static const uint64_t interval_ns = UINT64_C(250000000);

/* Noted stalls without an "over" line. Used only by the thread that writes notes. */
static struct noted {
  uint64_t item; /* 0: none */
  uint64_t next_age_ns;
  uint32_t slot;
} noted[NOTED_MAX];
static size_t lines_bytes;

/* A frame takes at most 18 characters. */
struct line {
  size_t length;
  char text[OBSERVER_LAST_FRAMES * 20 + 256 + CPROCESS_CHECKSUM_LENGTH];
};

void observer_hang_notes_start(void) {
  memset(noted, 0, sizeof noted);
  lines_bytes = 0;
}

static void put_text(struct line *line, const char *text, size_t length) {
  size_t room = sizeof line->text - CPROCESS_CHECKSUM_LENGTH - line->length;
  length = length < room ? length : room;
  memcpy(line->text + line->length, text, length);
  line->length += length;
}

static void put_number(struct line *line, uint64_t number, unsigned base, char before) {
  char digits[21];
  size_t place = sizeof digits;
  do {
    digits[--place] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number > 0);
  digits[--place] = before;
  put_text(line, digits + place, sizeof digits - place);
}

static struct line line_of(const char *word, uint32_t slot, uint64_t item) {
  struct line line = {.length = 0};
  put_text(&line, word, strlen(word));
  put_number(&line, slot, 10, ' ');
  put_number(&line, item, 10, ' ');
  return line;
}

static void write_line(struct line *line) {
  lines_bytes += line->length;
  cprocess_crash_write_line(line->text, line->length);
}

static void write_hang(uint32_t slot, const struct observer_stall_snapshot *view) {
  struct line line = line_of("hang", slot, view->item);
  put_number(&line, clinux_clock_wall_ns(), 10, ' ');
  put_number(&line, view->age_ns, 10, ' ');
  put_number(&line, view->threshold_ns, 10, ' ');
  put_number(&line, view->kind, 10, ' ');
  put_number(&line, view->tid > 0 ? (uint64_t)view->tid : 0, 10, ' ');
  put_text(&line, " ", 1);
  for (size_t index = 0; index < view->name_bytes; index++) {
    char byte = view->name[index];
    put_text(&line, (unsigned char)byte < ' ' ? "?" : &byte, 1);
  }
  write_line(&line);
}

static void write_stacks(uint32_t slot, uint64_t item) {
  static struct observer_last_stacks kept;
  if (!observer_last_stacks_read(slot, item, &kept))
    return;
  for (int index = 0; index < OBSERVER_LAST_STACKS && lines_bytes < LINES_BYTES_MAX; index++) {
    const struct observer_last_stack *stack = &kept.stacks[index];
    if (stack->samples == 0)
      continue;
    struct line line = line_of("stack", slot, item);
    put_number(&line, stack->samples, 10, ' ');
    put_number(&line, stack->end, 10, ' ');
    for (uint32_t frame = 0; frame < stack->count; frame++) {
      put_number(&line, stack->addresses[frame], 16, ' ');
      put_number(&line, stack->kinds[frame], 16, ':');
    }
    write_line(&line);
  }
}

static struct noted *find(uint32_t slot, uint64_t item) {
  for (int index = 0; index < NOTED_MAX; index++)
    if (noted[index].item == item && (item == 0 || noted[index].slot == slot))
      return &noted[index];
  return NULL;
}

/* Returns the time until the next check. */
static uint64_t end_noted(const struct observer_stall *table) {
  bool goes_on = false;
  for (int index = 0; index < NOTED_MAX; index++) {
    struct noted *one = &noted[index];
    if (one->item == 0)
      continue;
    if (observer_stall_is_unrecorded(&table[one->slot], one->item)) {
      goes_on = true;
      continue;
    }
    struct line line = line_of("over", one->slot, one->item);
    write_line(&line);
    one->item = 0;
  }
  return goes_on ? interval_ns : UINT64_MAX;
}

/* Returns the time until a note might be due; UINT64_MAX: never. */
static uint64_t note(uint32_t slot, const struct observer_stall *entry) {
  struct observer_stall_snapshot view;
  observer_stall_read(entry, &view);
  if (view.item == 0 || !observer_stall_is_unrecorded(entry, view.item))
    return UINT64_MAX;
  uint64_t due_ns = view.threshold_ns + OBSERVER_HANG_NOTE_DELAY_NS;
  if (view.age_ns < due_ns)
    return due_ns - view.age_ns;
  struct noted *one = find(slot, view.item);
  if (!one && lines_bytes < LINES_BYTES_MAX && (one = find(0, 0)))
    *one = (struct noted){.slot = slot, .item = view.item};
  if (one && view.age_ns >= one->next_age_ns && lines_bytes < LINES_BYTES_MAX) {
    write_hang(slot, &view);
    write_stacks(slot, view.item);
    /* The file grows with the logarithm of a hang's age. */
    one->next_age_ns = 2 * view.age_ns;
  }
  return interval_ns;
}

uint64_t observer_hang_notes_write(void) {
  const struct observer_stall *table = observer_stall_table_if_any();
  if (!table)
    return UINT64_MAX;
  uint64_t wait_ns = end_noted(table);
  uint32_t used = observer_stall_used();
  for (uint32_t slot = 0; slot < used; slot++) {
    uint64_t one_ns = observer_stall_is_stalled(&table[slot]) ? note(slot, &table[slot]) : UINT64_MAX;
    wait_ns = one_ns < wait_ns ? one_ns : wait_ns;
  }
  return wait_ns == UINT64_MAX ? UINT64_MAX : clinux_clock_ns() + wait_ns;
}
