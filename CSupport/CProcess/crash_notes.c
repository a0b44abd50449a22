#define _GNU_SOURCE
#include "crash_notes.h"

#include "clinux_clock.h"
#include "clinux_mask.h"
#include "clinux_wait.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

/* A recovering handler queues two lines for each signal. */
enum { NOTES_MAX = 16 };

/* The files of the run; NOTE_PLACE is the index of the file in use. The next file is stored at the other index. */
static struct clinux_descriptor note_files[2];
static _Atomic int note_place = -1;

static struct {
  char text[CRASH_NOTE_LENGTH_MAX];
  size_t length;
} notes[NOTES_MAX];

/* Low 16 bits: number of lines. High bits: the run. */
static _Atomic uint32_t put_count, written_count;
static _Atomic uint32_t calls;
static _Atomic int writer;

static uint32_t run_of(uint32_t count) { return count >> 16; }

static uint32_t next_of(uint32_t count) { return (count & 0xffff0000) | ((count + 1) & 0xffff); }

static uint32_t begin_run(void) {
  uint32_t run = (run_of(atomic_load(&put_count)) + 1) & 0xffff;
  atomic_store(&written_count, run << 16);
  atomic_store(&put_count, run << 16);
  clinux_wake(&written_count);
  clinux_notify(&calls);
  return run;
}

uint32_t crash_notes_start(struct clinux_descriptor file) {
  uint32_t run = begin_run();
  note_files[0] = file;
  atomic_store(&note_place, 0);
  return run;
}

/* BEGIN ASYNC-SIGNAL-SAFE SECTION. Uses no locks, allocation, stdio, loader or language runtime: interrupted code might
 * hold any lock. */

void crash_notes_stop(void) {
  atomic_store(&note_place, -1);
  begin_run();
}

void crash_notes_move(struct clinux_descriptor file) {
  int place = atomic_load(&note_place);
  if (place < 0)
    return;
  note_files[1 - place] = file;
  /* Fails if the run has just been stopped. */
  atomic_compare_exchange_strong(&note_place, &place, 1 - place);
}

void crash_notes_put(const char *line, size_t length) {
  uint32_t put = atomic_load(&put_count), written = atomic_load(&written_count);
  if (atomic_load(&note_place) < 0 || ((put - written) & 0xffff) >= NOTES_MAX || length > CRASH_NOTE_LENGTH_MAX)
    return;
  memcpy(notes[put % NOTES_MAX].text, line, length);
  notes[put % NOTES_MAX].length = length;
  if (atomic_compare_exchange_strong(&put_count, &put, next_of(put)))
    clinux_notify(&calls);
}

void crash_notes_write_now(const char *line, size_t length) {
  int place = atomic_load(&note_place);
  if (place >= 0 && clinux_descriptor_is_ours(&note_files[place]))
    (void)!clinux_write(note_files[place].number, line, length);
}

void crash_notes_wake(void) { clinux_notify(&calls); }

static bool write_next(uint32_t run) {
  uint32_t put = atomic_load(&put_count), written = atomic_load(&written_count);
  if (run_of(put) != run || run_of(written) != run || put == written)
    return false;
  crash_notes_write_now(notes[written % NOTES_MAX].text, notes[written % NOTES_MAX].length);
  atomic_compare_exchange_strong(&written_count, &written, next_of(written));
  clinux_wake(&written_count);
  return true;
}

void crash_notes_wait(uint64_t deadline_ns) {
  uint32_t put = atomic_load(&put_count), written;
  /* The writer thread must not wait for itself. */
  if ((int)syscall(SYS_gettid) == atomic_load(&writer)) {
    while (write_next(run_of(put)))
      ;
    return;
  }
  while ((written = atomic_load(&written_count)),
         run_of(written) == run_of(put) && (int16_t)(put - written) > 0 && clinux_clock_ns() < deadline_ns)
    clinux_wait(&written_count, written, deadline_ns);
}

void crash_notes_write(uint32_t run, uint64_t (*more)(void)) {
  int self = (int)syscall(SYS_gettid);
  if (run_of(atomic_load(&put_count)) == run)
    atomic_store(&writer, self);
  for (;;) {
    uint32_t seen = clinux_word(&calls);
    if (run_of(atomic_load(&put_count)) != run)
      break;
    if (!write_next(run))
      clinux_wait(&calls, seen, more());
  }
  /* Removes this thread's ID, which can be reused. The writer thread of a later run might already have replaced the
   * ID. */
  atomic_compare_exchange_strong(&writer, &self, 0);
}

/* END ASYNC-SIGNAL-SAFE SECTION */
