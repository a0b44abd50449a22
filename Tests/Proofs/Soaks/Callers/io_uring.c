/* Waits for a ring's completion, by bare system calls (io_uring(7)): the only call that is known to return early
 * (docs/internals/capture.md). */
#define _GNU_SOURCE
#include "io_uring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENTRIES = 4 };

struct ring {
  int descriptor;
  struct io_uring_sqe *submissions;
  uint8_t *queues; /* both queues, in one mapping since Linux 5.4 */
  size_t queues_bytes;
  struct io_sqring_offsets submission;
  struct io_cqring_offsets completion;
};

static _Atomic uint32_t *word(const struct ring *ring, uint32_t offset) {
  return (_Atomic uint32_t *)(void *)(ring->queues + offset);
}

static int enter(const struct ring *ring, unsigned submitted, unsigned wanted) {
  return (int)syscall(SYS_io_uring_enter, ring->descriptor, submitted, wanted, wanted > 0 ? IORING_ENTER_GETEVENTS : 0,
                      NULL, 0UL);
}

bool io_uring_is_there(void) {
  struct io_uring_params params;
  memset(&params, 0, sizeof params);
  int descriptor = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
  if (descriptor >= 0)
    close(descriptor);
  return descriptor >= 0 && (params.features & IORING_FEAT_SINGLE_MMAP) != 0;
}

bool open_ring(struct caller *caller) {
  struct ring *ring = calloc(1, sizeof *ring);
  struct io_uring_params params;
  memset(&params, 0, sizeof params);
  caller->ring = ring;
  if (!ring || (ring->descriptor = (int)syscall(SYS_io_uring_setup, ENTRIES, &params)) < 0)
    return false;
  ring->submission = params.sq_off;
  ring->completion = params.cq_off;
  size_t submitted = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
  size_t completed = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
  ring->queues_bytes = submitted > completed ? submitted : completed;
  void *queues =
      mmap(NULL, ring->queues_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->descriptor, IORING_OFF_SQ_RING);
  void *submissions = mmap(NULL, params.sq_entries * sizeof *ring->submissions, PROT_READ | PROT_WRITE, MAP_SHARED,
                           ring->descriptor, (off_t)IORING_OFF_SQES);
  ring->queues = queues;
  ring->submissions = submissions;
  return queues != MAP_FAILED && submissions != MAP_FAILED;
}

void close_ring(struct caller *caller) {
  struct ring *ring = caller->ring;
  munmap(ring->queues, ring->queues_bytes);
  munmap(ring->submissions, ENTRIES * sizeof *ring->submissions);
  close(ring->descriptor);
  free(ring);
}

/* Submits a timeout of TIME. */
static bool submit_timeout(struct ring *ring, struct __kernel_timespec *time) {
  uint32_t tail = *word(ring, ring->submission.tail);
  uint32_t place = tail & *word(ring, ring->submission.ring_mask);
  struct io_uring_sqe *submission = &ring->submissions[place];
  memset(submission, 0, sizeof *submission);
  submission->opcode = IORING_OP_TIMEOUT;
  submission->fd = -1;
  submission->addr = (uint64_t)(uintptr_t)time;
  submission->len = 1;
  ((uint32_t *)(void *)(ring->queues + ring->submission.array))[place] = place;
  *word(ring, ring->submission.tail) = tail + 1;
  return enter(ring, 1, 0) == 1;
}

__attribute__((noinline)) enum outcome call_io_uring_enter(struct caller *caller) {
  struct ring *ring = caller->ring;
  uint64_t asked = random_between_powers(caller, 12, 22);
  struct __kernel_timespec time = {.tv_sec = (int64_t)(asked / 1000000000), .tv_nsec = (long long)(asked % 1000000000)};
  if (!submit_timeout(ring, &time))
    return UNEXPECTED;
  enum outcome outcome = TIMED_OUT;
  while (*word(ring, ring->completion.head) == *word(ring, ring->completion.tail))
    if (enter(ring, 0, 1) < 0)
      outcome = errno == EINTR ? INTERRUPTED : UNEXPECTED;
  *word(ring, ring->completion.head) = *word(ring, ring->completion.head) + 1;
  return outcome;
}
