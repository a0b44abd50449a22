#define _GNU_SOURCE
#include "transport/observer_ring.h"

#include "clinux_wait.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
CLINUX_RESIDENT_CODE

/* The writer owns head, the reader owns tail, each on its own cache line. Both only grow; [tail, head) holds whole
 * entries. */
struct observer_ring {
  _Alignas(64) _Atomic uint64_t head;
  /* Used only in the reader's first ring, and shared by the reader's other rings. */
  _Atomic uint32_t own_published;
  _Atomic uint64_t own_order;
  _Atomic uint32_t *published; /* number of events; the reader waits on it */
  _Atomic uint64_t *order;
  _Alignas(64) _Atomic uint64_t tail;
  _Alignas(64) uint64_t capacity; /* a power of two */
  uint8_t *bytes;
};

_Static_assert(sizeof(struct observer_event) % 8 == 0, "the next event is aligned");
_Static_assert(sizeof(struct unwind_frame) % 8 == 0, "an event after frames is aligned");

/* Every entry begins with its length, so a filler can be a single word. */
struct entry {
  uint32_t bytes;  /* of the whole entry, a multiple of 8 */
  uint32_t filler; /* 1: unused end of the buffer */
};

struct observer_ring *observer_ring_create(size_t capacity) {
  if (capacity < 64 * 1024 || (capacity & (capacity - 1)) != 0)
    return NULL;
  struct observer_ring *ring = aligned_alloc(64, sizeof *ring);
  void *memory = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!ring || memory == MAP_FAILED) {
    free(ring);
    if (memory != MAP_FAILED)
      munmap(memory, capacity);
    return NULL;
  }
  memset(ring, 0, sizeof *ring);
  ring->capacity = capacity;
  ring->bytes = memory;
  /* Touches the memory now, because the first access takes the address space's lock. */
  *(volatile uint8_t *)memory = 0;
  ring->published = &ring->own_published;
  ring->order = &ring->own_order;
  return ring;
}

struct observer_ring *observer_ring_create_beside(size_t capacity, struct observer_ring *first) {
  struct observer_ring *ring = observer_ring_create(capacity);
  if (ring) {
    ring->published = first->published;
    ring->order = first->order;
  }
  return ring;
}

void observer_ring_destroy(struct observer_ring *ring) {
  munmap(ring->bytes, ring->capacity);
  free(ring);
}

uint32_t observer_ring_published(const struct observer_ring *ring) { return clinux_word(ring->published); }

void observer_ring_wait(const struct observer_ring *ring, uint32_t seen) {
  clinux_wait(ring->published, seen, UINT64_MAX);
}

void observer_ring_wake_reader(struct observer_ring *ring) { clinux_notify(ring->published); }

static uint64_t used(const struct observer_ring *ring) {
  return atomic_load_explicit(&ring->head, memory_order_relaxed) -
         atomic_load_explicit(&ring->tail, memory_order_acquire);
}

bool observer_ring_has_room(const struct observer_ring *ring, uint32_t events) {
  uint64_t longest =
      sizeof(struct entry) + sizeof(struct observer_event) + UNWIND_FRAMES_MAX * sizeof(struct unwind_frame);
  /* Requires space for one more event, because an event that does not fit leaves the end of the buffer unused. */
  return ring->capacity - used(ring) >= (events + UINT64_C(1)) * longest;
}

bool observer_ring_is_half_free(const struct observer_ring *ring) { return used(ring) <= ring->capacity / 2; }

bool observer_ring_add(struct observer_ring *ring, const struct observer_event *event,
                       const struct unwind_frame *frames, uint32_t count) {
  uint64_t bytes = sizeof(struct entry) + sizeof *event + (uint64_t)count * sizeof *frames;
  uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
  uint64_t offset = head & (ring->capacity - 1);
  uint64_t to_end = ring->capacity - offset;
  uint64_t needed = to_end < bytes ? to_end + bytes : bytes;
  if (ring->capacity - (head - tail) < needed)
    return false;
  if (to_end < bytes) {
    *(struct entry *)(void *)(ring->bytes + offset) = (struct entry){(uint32_t)to_end, 1};
    head += to_end;
    offset = 0;
  }
  *(struct entry *)(void *)(ring->bytes + offset) = (struct entry){(uint32_t)bytes, 0};
  struct observer_event *written = (struct observer_event *)(void *)(ring->bytes + offset + sizeof(struct entry));
  *written = *event;
  written->count = count;
  written->order = atomic_fetch_add_explicit(ring->order, 1, memory_order_relaxed);
  if (count > 0)
    memcpy(written->frames, frames, (size_t)count * sizeof *frames);
  atomic_store_explicit(&ring->head, head + bytes, memory_order_release);
  return true;
}

bool observer_ring_write(struct observer_ring *ring, const struct observer_event *event,
                         const struct unwind_frame *frames, uint32_t count) {
  if (!observer_ring_add(ring, event, frames, count))
    return false;
  clinux_notify(ring->published);
  return true;
}

const struct observer_event *observer_ring_read(struct observer_ring *ring) {
  for (;;) {
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail == atomic_load_explicit(&ring->head, memory_order_acquire))
      return NULL;
    const uint8_t *at = ring->bytes + (tail & (ring->capacity - 1));
    const struct entry *entry = (const struct entry *)(const void *)at;
    if (!entry->filler)
      return (const struct observer_event *)(const void *)(at + sizeof *entry);
    atomic_store_explicit(&ring->tail, tail + entry->bytes, memory_order_release);
  }
}

void observer_ring_consume(struct observer_ring *ring) {
  uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
  const struct entry *entry = (const struct entry *)(const void *)(ring->bytes + (tail & (ring->capacity - 1)));
  atomic_store_explicit(&ring->tail, tail + entry->bytes, memory_order_release);
}
