#define _GNU_SOURCE
#include "transport/observer_sampling.h"

#include "clinux_task.h"

#include <stdlib.h>
#include <sys/mman.h>
CLINUX_RESIDENT_CODE

struct observer_sampling *observer_sampling_create(void) {
  struct observer_sampling *sampling = calloc(1, sizeof *sampling);
  void *memory = mmap(NULL, sizeof(struct observer_work) * OBSERVER_SLOTS_MAX, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!sampling || memory == MAP_FAILED) {
    free(sampling);
    if (memory != MAP_FAILED)
      munmap(memory, sizeof(struct observer_work) * OBSERVER_SLOTS_MAX);
    return NULL;
  }
  sampling->work = memory;
  /* Touches the memory now, because the first access takes the address space's lock. */
  atomic_store_explicit(&sampling->work[0].item, 0, memory_order_relaxed);
  return sampling;
}

void observer_sampling_destroy(struct observer_sampling *sampling) {
  munmap(sampling->work, sizeof(struct observer_work) * OBSERVER_SLOTS_MAX);
  free(sampling);
}

void observer_work_follow(struct observer_work *work, struct observer_work_snapshot view) {
  atomic_store_explicit(&work->item, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&work->generation, view.generation, memory_order_relaxed);
  atomic_store_explicit(&work->age_ns, view.age_ns, memory_order_relaxed);
  atomic_store_explicit(&work->gap_ns, view.gap_ns, memory_order_relaxed);
  atomic_store_explicit(&work->tick_ns, view.tick_ns, memory_order_relaxed);
  atomic_store_explicit(&work->item, view.item, memory_order_release);
}

static struct observer_work_snapshot read_once(const struct observer_work *work) {
  struct observer_work_snapshot view = {.item = atomic_load_explicit(&work->item, memory_order_acquire)};
  view.generation = atomic_load_explicit(&work->generation, memory_order_relaxed);
  view.age_ns = atomic_load_explicit(&work->age_ns, memory_order_relaxed);
  view.gap_ns = atomic_load_explicit(&work->gap_ns, memory_order_relaxed);
  view.tick_ns = atomic_load_explicit(&work->tick_ns, memory_order_relaxed);
  atomic_thread_fence(memory_order_acquire);
  uint64_t now = atomic_load_explicit(&work->item, memory_order_relaxed);
  /* A changed tick_ns reveals that the monitor has written the same work item again. */
  if (now != view.item || atomic_load_explicit(&work->tick_ns, memory_order_relaxed) != view.tick_ns)
    view.item = 0;
  return view;
}

struct observer_work_snapshot observer_work_read(const struct observer_work *work) {
  struct observer_work_snapshot view = read_once(work);
  /* The item is 0 while the monitor is writing. */
  for (int attempt = 0; attempt < 100 && view.item == 0; attempt++)
    view = read_once(work);
  return view;
}

void observer_work_lose(struct observer_work *work, uint64_t item) {
  uint64_t before = observer_work_lost(work, item);
  atomic_store_explicit(&work->lost_item, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&work->lost, before + 1, memory_order_relaxed);
  atomic_store_explicit(&work->lost_item, item, memory_order_release);
}

void observer_sampler_ready(struct observer_sampling *sampling, uint32_t number) {
  struct observer_sampler *sampler = &sampling->samplers[number];
  atomic_store_explicit(&sampler->tid, clinux_task_self(), memory_order_relaxed);
  /* If the monitor has already activated the sampler, it stays active. */
  uint32_t absent = OBSERVER_SAMPLER_ABSENT;
  atomic_compare_exchange_strong_explicit(&sampler->state, &absent, OBSERVER_SAMPLER_SPARE, memory_order_release,
                                          memory_order_relaxed);
}

void observer_sampler_activate(struct observer_sampling *sampling, uint32_t number) {
  uint32_t spare = OBSERVER_SAMPLER_SPARE;
  if (atomic_compare_exchange_strong_explicit(&sampling->samplers[number].state, &spare, OBSERVER_SAMPLER_ACTIVE,
                                              memory_order_acq_rel, memory_order_relaxed))
    observer_sampler_wake(sampling, number);
}

int32_t observer_sampler_give_up(struct observer_sampling *sampling, uint32_t number) {
  struct observer_sampler *sampler = &sampling->samplers[number];
  int32_t slot = atomic_load_explicit(&sampler->slot, memory_order_relaxed);
  if (slot >= 0)
    atomic_store_explicit(&sampling->work[slot].avoided,
                          atomic_load_explicit(&sampling->work[slot].item, memory_order_relaxed), memory_order_relaxed);
  atomic_store_explicit(&sampling->avoided_tids[number], atomic_load_explicit(&sampler->target, memory_order_relaxed),
                        memory_order_relaxed);
  atomic_store_explicit(&sampler->state, OBSERVER_SAMPLER_HELD_UP, memory_order_release);
  return slot;
}

void observer_sampler_come_back(struct observer_sampling *sampling, uint32_t number) {
  uint32_t held_up = OBSERVER_SAMPLER_HELD_UP;
  atomic_store_explicit(&sampling->avoided_tids[number], 0, memory_order_relaxed);
  atomic_compare_exchange_strong_explicit(&sampling->samplers[number].state, &held_up, OBSERVER_SAMPLER_SPARE,
                                          memory_order_acq_rel, memory_order_relaxed);
}

void observer_sampler_end(struct observer_sampling *sampling, uint32_t number) {
  atomic_store_explicit(&sampling->samplers[number].state, OBSERVER_SAMPLER_ABSENT, memory_order_release);
}

bool observer_sampler_is_asleep(const struct observer_sampling *sampling, uint32_t number) {
  return clinux_task_is_asleep(atomic_load_explicit(&sampling->samplers[number].tid, memory_order_relaxed));
}

bool observer_sampling_avoids(const struct observer_sampling *sampling, int32_t tid) {
  for (int number = 0; number < OBSERVER_SAMPLERS_MAX; number++)
    if (tid != 0 && atomic_load_explicit(&sampling->avoided_tids[number], memory_order_relaxed) == tid)
      return true;
  return false;
}

static uint32_t count(const struct observer_sampling *sampling, enum observer_sampler_state least) {
  uint32_t found = 0;
  for (uint32_t number = 0; number < OBSERVER_SAMPLERS_MAX; number++)
    found += observer_sampler_state(sampling, number) >= least;
  return found;
}

uint32_t observer_sampling_held_up(const struct observer_sampling *sampling) {
  return count(sampling, OBSERVER_SAMPLER_HELD_UP);
}

uint32_t observer_sampling_count(const struct observer_sampling *sampling) {
  return count(sampling, OBSERVER_SAMPLER_SPARE);
}

void observer_sampling_stop(struct observer_sampling *sampling) {
  atomic_store_explicit(&sampling->stop, 1, memory_order_release);
  for (uint32_t number = 0; number < OBSERVER_SAMPLERS_MAX; number++)
    observer_sampler_wake(sampling, number);
}

bool observer_capture_all_is_urgent(const struct observer_sampling *sampling, uint32_t requests) {
  return atomic_load_explicit(&sampling->capture_open, memory_order_acquire) != 0 ||
         atomic_load_explicit(&sampling->capture_requests, memory_order_relaxed) != requests;
}

bool observer_capture_all_is_wanted(const struct observer_sampling *sampling, uint32_t requests) {
  return observer_capture_all_is_urgent(sampling, requests) ||
         atomic_load_explicit(&sampling->capture_stalls, memory_order_relaxed) !=
             atomic_load_explicit(&sampling->stalls_declared, memory_order_acquire);
}

uint32_t observer_capture_all_begin(struct observer_sampling *sampling, uint32_t requests) {
  atomic_store_explicit(&sampling->capture_stalls,
                        atomic_load_explicit(&sampling->stalls_declared, memory_order_acquire), memory_order_relaxed);
  atomic_store_explicit(&sampling->capture_requests, requests, memory_order_relaxed);
  uint32_t number = atomic_fetch_add_explicit(&sampling->captures_begun, 1, memory_order_relaxed) + 1;
  atomic_store_explicit(&sampling->capture_open, number, memory_order_release);
  return number;
}

void observer_capture_all_end(struct observer_sampling *sampling, uint32_t number) {
  atomic_compare_exchange_strong_explicit(&sampling->capture_open, &number, 0, memory_order_release,
                                          memory_order_relaxed);
}
