#define _GNU_SOURCE
#include "deep_room.h"

#include "capture/observer_copy.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

/* The fields after IS_TAKEN belong to the thread that has taken the buffer. */
static struct {
  _Atomic bool is_taken;
  uint8_t *_Atomic memory; /* also read by other threads, for comparison */
  size_t capacity;
  size_t unwiped; /* might hold earlier copies */
} room;

static bool take(void) { return !atomic_exchange_explicit(&room.is_taken, true, memory_order_acquire); }

static void leave(void) { atomic_store_explicit(&room.is_taken, false, memory_order_release); }

void observer_deep_room_map(size_t bytes) {
  if (bytes <= OBSERVER_USUAL_ROOM_BYTES || !take())
    return;
  uint8_t *memory = room.capacity < bytes ? observer_copy_map(bytes) : NULL;
  if (memory) {
    uint8_t *before = atomic_exchange_explicit(&room.memory, memory, memory_order_relaxed);
    if (before)
      munmap(before, room.capacity);
    room.capacity = bytes;
    room.unwiped = 0;
  }
  leave();
}

void observer_deep_room_forget_parent(void) {
  atomic_store_explicit(&room.memory, NULL, memory_order_relaxed);
  room.capacity = room.unwiped = 0;
  leave();
}

uint8_t *observer_deep_room_or(uint8_t *own, size_t *capacity, size_t bytes_max, uint64_t live) {
  if (live <= *capacity || bytes_max <= *capacity || !take())
    return own;
  if (room.capacity <= *capacity) {
    leave();
    return own;
  }
  *capacity = room.capacity < bytes_max ? room.capacity : bytes_max;
  return atomic_load_explicit(&room.memory, memory_order_relaxed);
}

bool observer_deep_room_give_back(const uint8_t *memory, size_t bytes) {
  if (!memory || memory != atomic_load_explicit(&room.memory, memory_order_relaxed))
    return false;
  if (room.unwiped < bytes)
    room.unwiped = bytes;
  leave();
  return true;
}

void observer_deep_room_wipe(void) {
  if (!take())
    return;
  if (room.unwiped > 0 &&
      syscall(SYS_madvise, atomic_load_explicit(&room.memory, memory_order_relaxed), room.unwiped, MADV_DONTNEED) == 0)
    room.unwiped = 0;
  leave();
}
