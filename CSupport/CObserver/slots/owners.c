#include "slots/observer_owners.h"

static bool is_among(int32_t tid, const int32_t *tids, size_t count) {
  for (size_t index = 0; index < count; index++)
    if (tids[index] == tid)
      return true;
  return false;
}

/* Returns TID's index, or USED. */
static uint32_t place_of(const struct observer_owners *owners, int32_t tid, uint32_t used) {
  uint32_t place = 0;
  while (place < used && observer_owners_at(owners, place) != tid)
    place++;
  return place;
}

void observer_owners_set(struct observer_owners *owners, const int32_t *tids, size_t count) {
  uint32_t used = observer_owners_used(owners);
  for (uint32_t place = 0; place < used; place++)
    if (!is_among(observer_owners_at(owners, place), tids, count))
      atomic_store_explicit(&owners->tids[place], 0, memory_order_relaxed);
  for (size_t index = 0; index < count; index++) {
    if (place_of(owners, tids[index], used) < used)
      continue;
    uint32_t place = place_of(owners, 0, used);
    if (place == OBSERVER_OWNERS_MAX)
      return;
    atomic_store_explicit(&owners->tids[place], tids[index], memory_order_relaxed);
    if (place == used)
      atomic_store_explicit(&owners->used, ++used, memory_order_release);
  }
}
