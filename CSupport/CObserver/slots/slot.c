#define _GNU_SOURCE
#include "slots/observer_slot.h"

#include "clinux_lock.h"
#include "clinux_memory.h"
#include "clinux_process.h"

#include <string.h>
#include <sys/mman.h>
CLINUX_RESIDENT_CODE

static struct observer_slot *_Atomic slots;
static _Atomic uint32_t slots_process;
static struct clinux_lock slots_lock;

struct observer_slot *observer_slot_table_if_any(void) {
  if (!clinux_process_is(atomic_load_explicit(&slots_process, memory_order_acquire)))
    return NULL;
  return atomic_load_explicit(&slots, memory_order_relaxed);
}

/* A loop's turn ends with its thread. Other work can continue, or end, on another thread. */
static void leave(struct observer_slot *slot, struct observer_thread *thread) {
  uint64_t item = observer_slot_work_item(slot);
  if (item == OBSERVER_IDLE || atomic_load_explicit(&slot->thread, memory_order_relaxed) != thread)
    return;
  if (atomic_load_explicit(&slot->polled, memory_order_relaxed) == 0) {
    /* The thread's entry might soon be reused. */
    struct observer_thread *expected = thread;
    atomic_compare_exchange_strong_explicit(&slot->thread, &expected, NULL, memory_order_relaxed, memory_order_relaxed);
    return;
  }
  if (atomic_load_explicit(&slot->end_time_wanted, memory_order_relaxed) == item)
    observer_slot_end_timed(slot);
  /* Another thread might have begun the next work item meanwhile. */
  atomic_compare_exchange_strong_explicit(&slot->began_ns, &item, OBSERVER_IDLE, memory_order_release,
                                          memory_order_relaxed);
}

static void leave_all(struct observer_thread *thread) {
  struct observer_slot *table = observer_slot_table_if_any();
  for (uint32_t index = 0; table && index < OBSERVER_SLOTS_MAX; index++) {
    if (atomic_load_explicit(&table[index].generation, memory_order_relaxed) == 0)
      break; /* later slots were never owned */
    leave(&table[index], thread);
  }
}

struct observer_slot *observer_slot_table(void) {
  struct observer_slot *table = observer_slot_table_if_any();
  if (table)
    return table;
  clinux_lock_take(&slots_lock);
  table = observer_slot_table_if_any();
  if (!table) {
    void *memory = mmap(NULL, sizeof(struct observer_slot) * OBSERVER_SLOTS_MAX, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    table = memory == MAP_FAILED ? NULL : memory;
    observer_thread_at_exit(leave_all);
    atomic_store_explicit(&slots, table, memory_order_relaxed);
    atomic_store_explicit(&slots_process, clinux_process_stamp(), memory_order_release);
  }
  clinux_lock_release(&slots_lock);
  return table;
}

void observer_slot_end_timed(struct observer_slot *slot) {
  uint64_t item = atomic_load_explicit(&slot->began_ns, memory_order_relaxed);
  if (item != OBSERVER_IDLE && atomic_load_explicit(&slot->end_time_wanted, memory_order_relaxed) == item) {
    atomic_store_explicit(&slot->ended_exempt_ns, observer_exemption_sum(&slot->exemption), memory_order_relaxed);
    atomic_store_explicit(&slot->ended_ns, clinux_clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&slot->ended_generation, atomic_load_explicit(&slot->generation, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&slot->ended_item, item, memory_order_release);
  }
  /* The next end must not overwrite this end time before the monitor has read it. */
  atomic_store_explicit(&slot->end_time_wanted, 0, memory_order_relaxed);
}

struct observer_slot_snapshot observer_slot_read(const struct observer_slot *slot) {
  struct observer_slot_snapshot view = {.item = atomic_load_explicit(&slot->began_ns, memory_order_acquire)};
  view.thread = atomic_load_explicit(&slot->thread, memory_order_relaxed);
  view.generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
  view.limits.polled = atomic_load_explicit(&slot->polled, memory_order_relaxed) != 0;
  view.limits.suspicion_ns = atomic_load_explicit(&slot->suspicion_ns, memory_order_relaxed);
  view.limits.threshold_ns = atomic_load_explicit(&slot->deferred, memory_order_relaxed) != 0
                                 ? UINT64_MAX
                                 : atomic_load_explicit(&slot->threshold_ns, memory_order_relaxed);
  view.limits.early_interval_ns = atomic_load_explicit(&slot->early_interval_ns, memory_order_relaxed);
  view.limits.interval_ns = atomic_load_explicit(&slot->interval_ns, memory_order_relaxed);
  view.owner_kind = (enum observer_owner_kind)atomic_load_explicit(&slot->owner_kind, memory_order_relaxed);
  view.owner.task = atomic_load_explicit(&slot->owner, memory_order_relaxed);
  view.owner_task_id = atomic_load_explicit(&slot->owner_task_id, memory_order_relaxed);
  view.queue_head_address = atomic_load_explicit(&slot->queue_head_address, memory_order_relaxed);
  view.unwatched_ns = atomic_load_explicit(&slot->unwatched_ns, memory_order_relaxed);
  view.exempt_ns = observer_exemption_sum(&slot->exemption);
  /* A changed began_ns invalidates the snapshot. */
  atomic_thread_fence(memory_order_acquire);
  if (atomic_load_explicit(&slot->began_ns, memory_order_relaxed) != view.item)
    view.item = OBSERVER_IDLE;
  return view;
}

bool observer_slot_want_end_time(struct observer_slot *slot, uint64_t item) {
  atomic_store_explicit(&slot->end_time_generation, atomic_load_explicit(&slot->generation, memory_order_relaxed),
                        memory_order_seq_cst);
  atomic_store_explicit(&slot->end_time_wanted, item, memory_order_seq_cst);
  if (atomic_load_explicit(&slot->began_ns, memory_order_seq_cst) == item)
    return true;
  atomic_compare_exchange_strong_explicit(&slot->end_time_wanted, &item, 0, memory_order_relaxed, memory_order_relaxed);
  return false;
}

uint64_t observer_slot_ended_ns(struct observer_slot *slot, uint64_t item, uint32_t generation) {
  uint64_t asked = item;
  atomic_compare_exchange_strong_explicit(&slot->end_time_wanted, &asked, 0, memory_order_relaxed,
                                          memory_order_relaxed);
  if (atomic_load_explicit(&slot->ended_item, memory_order_acquire) != item ||
      atomic_load_explicit(&slot->ended_generation, memory_order_relaxed) != generation)
    return 0;
  return atomic_load_explicit(&slot->ended_ns, memory_order_relaxed);
}

void observer_slot_limit(struct observer_slot *slot, struct observer_limits limits) {
  /* A reader of the new limits also sees that the former owner's work item has ended (observer_slot_read). */
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&slot->polled, limits.polled, memory_order_relaxed);
  atomic_store_explicit(&slot->suspicion_ns, limits.suspicion_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->threshold_ns, limits.threshold_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->early_interval_ns, limits.early_interval_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->interval_ns, limits.interval_ns, memory_order_relaxed);
  atomic_store_explicit(&slot->exact_begins, observer_slot_needs_exact(limits.threshold_ns), memory_order_relaxed);
}

static void set_owner(struct observer_slot *slot, enum observer_owner_kind kind, uint64_t owner, uint32_t task_id) {
  atomic_store_explicit(&slot->owner, owner, memory_order_relaxed);
  atomic_store_explicit(&slot->owner_task_id, task_id, memory_order_relaxed);
  atomic_store_explicit(&slot->queue_head_address, 0, memory_order_relaxed);
  atomic_store_explicit(&slot->owner_kind, kind, memory_order_relaxed);
}

void observer_slot_set_addresses(struct observer_slot *slot, uint64_t tid_address, uint64_t queue_head_address) {
  set_owner(slot, OBSERVER_OWNER_WORD, tid_address, 0);
  observer_slot_set_queue_head(slot, queue_head_address);
}

void observer_slot_set_owners(struct observer_slot *slot, const struct observer_owners *owners) {
  set_owner(slot, OBSERVER_OWNER_THREADS, (uint64_t)(uintptr_t)owners, 0);
}

void observer_slot_set_queue_head(struct observer_slot *slot, uint64_t queue_head_address) {
  atomic_store_explicit(&slot->queue_head_address, queue_head_address, memory_order_relaxed);
}

void observer_slot_set_task(struct observer_slot *slot, uint64_t task, uint32_t id) {
  set_owner(slot, OBSERVER_OWNER_TASK, task, id);
}

void observer_slot_set_frame(struct observer_slot *slot) {
  const struct observer_thread *thread = observer_thread_current();
  uint64_t frame = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  uint64_t low = thread ? atomic_load_explicit(&thread->stack_low, memory_order_relaxed) : 0;
  uint64_t high = thread ? atomic_load_explicit(&thread->stack_high, memory_order_relaxed) : 0;
  /* From a coroutine's stack, a wrong frame pointer could lead to unmapped memory. */
  if (low == 0 || frame < low)
    frame = 0;
  for (int level = 0; level < OBSERVER_FRAMES_UP && frame != 0; level++) {
    /* Code without frame pointers uses the register for other values. */
    uint64_t caller = frame % 8 == 0 && frame + 16 <= high ? *(const uint64_t *)(uintptr_t)frame : 0;
    frame = caller > frame && caller < high ? caller : 0;
  }
  atomic_store_explicit(&slot->frame, frame, memory_order_relaxed);
}

bool observer_slot_has_left(const struct observer_slot *slot, uint64_t stack_pointer) {
  uint64_t frame = atomic_load_explicit(&slot->frame, memory_order_relaxed);
  const struct observer_thread *thread = observer_slot_thread(slot);
  /* On another stack, the stack pointer proves nothing. */
  return frame != 0 && thread && stack_pointer > frame &&
         stack_pointer < atomic_load_explicit(&thread->stack_high, memory_order_relaxed);
}

/* Owner words of libdispatch's queues and pthread's locks have the thread ID in the lower bits (FUTEX_TID_MASK). */
int32_t observer_slot_owner(uint64_t tid_address) {
  uint32_t word = 0;
  return tid_address != 0 && clinux_memory_read(tid_address, &word, sizeof word) ? (int32_t)(word & 0x3fffffff) : 0;
}

uint32_t observer_slot_queue_head(uint64_t queue_head_address) {
  uint64_t word = 0;
  if (queue_head_address == 0 || !clinux_memory_read(queue_head_address, &word, sizeof word))
    return 0;
  return (uint32_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

enum { LABEL_GENERATION_SHIFT = 32 };
#define LABEL_BYTES_MASK UINT64_C(0xff)
#define LABEL_CHANGING UINT64_C(0x100)
#define LABEL_SEQUENCE_MASK UINT64_C(0xffffff00)

void observer_slot_set_label(struct observer_slot *slot, uint32_t generation, const char *text, size_t bytes) {
  if (bytes > sizeof slot->label)
    bytes = sizeof slot->label;
  uint64_t words[OBSERVER_LABEL_WORDS] = {0};
  if (bytes > 0)
    memcpy(words, text, bytes);
  uint64_t state = atomic_load_explicit(&slot->label_state, memory_order_relaxed);
  if (state >> LABEL_GENERATION_SHIFT != generation || (state & LABEL_CHANGING) != 0 ||
      !atomic_compare_exchange_strong_explicit(&slot->label_state, &state, state | LABEL_CHANGING, memory_order_relaxed,
                                               memory_order_relaxed))
    return;
  /* The owner cannot change from here on (observer_slot_retire). */
  atomic_thread_fence(memory_order_release);
  for (int index = 0; index < OBSERVER_LABEL_WORDS; index++)
    atomic_store_explicit(&slot->label[index], words[index], memory_order_relaxed);
  uint64_t sequence = ((state & LABEL_SEQUENCE_MASK) + 2 * LABEL_CHANGING) & LABEL_SEQUENCE_MASK;
  atomic_store_explicit(&slot->label_state, (uint64_t)generation << LABEL_GENERATION_SHIFT | sequence | bytes,
                        memory_order_release);
}

void observer_slot_label(const struct observer_slot *slot, struct observer_label *label) {
  uint64_t state = atomic_load_explicit(&slot->label_state, memory_order_acquire);
  label->bytes = (uint32_t)(state & LABEL_BYTES_MASK);
  for (int index = 0; index < OBSERVER_LABEL_WORDS; index++) {
    uint64_t word = atomic_load_explicit(&slot->label[index], memory_order_relaxed);
    memcpy(label->text + index * 8, &word, sizeof word);
  }
  atomic_thread_fence(memory_order_acquire);
  if ((state & LABEL_CHANGING) != 0 || atomic_load_explicit(&slot->label_state, memory_order_relaxed) != state ||
      label->bytes > sizeof label->text)
    label->bytes = 0;
}

bool observer_slot_retire(struct observer_slot *slot) {
  if (!observer_exemption_retire(&slot->exemption))
    return false;
  uint64_t state = atomic_load_explicit(&slot->label_state, memory_order_acquire);
  return (state & LABEL_CHANGING) == 0 &&
         atomic_compare_exchange_strong_explicit(&slot->label_state, &state, 0, memory_order_acquire,
                                                 memory_order_relaxed);
}

uint32_t observer_slot_configure(struct observer_slot *slot, struct observer_limits limits) {
  uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;
  if (generation == 0)
    generation = 1;
  observer_slot_limit(slot, limits);
  set_owner(slot, OBSERVER_OWNER_WORD, 0, 0);
  atomic_store_explicit(&slot->unwatched_ns, 0, memory_order_relaxed);
  atomic_store_explicit(&slot->frame, 0, memory_order_relaxed);
  observer_slot_defer(slot, false);
  atomic_store_explicit(&slot->end_time_wanted, 0, memory_order_relaxed);
  observer_exemption_configure(&slot->exemption, generation);
  atomic_store_explicit(&slot->label_state, (uint64_t)generation << LABEL_GENERATION_SHIFT, memory_order_release);
  atomic_store_explicit(&slot->generation, generation, memory_order_release);
  return generation;
}

void observer_slot_disable(struct observer_slot *slot) {
  observer_slot_limit(slot, (struct observer_limits){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, false});
}
