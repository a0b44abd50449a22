#define _GNU_SOURCE
#include "observer_warden.h"

#include <sched.h>
#include <string.h>

void observer_warden_set_reason(struct observer_warden *warden, const char *text, size_t bytes) {
  struct observer_doom *doom = &warden->doom;
  doom->bytes = (uint32_t)(bytes < sizeof doom->reason ? bytes : sizeof doom->reason);
  memcpy(doom->reason, text, doom->bytes);
}

void observer_text_put(struct observer_text *text, const char *begin, size_t bytes) {
  for (;;) {
    uint32_t state = OBSERVER_TEXT_NONE;
    if (atomic_compare_exchange_strong_explicit(&text->state, &state, OBSERVER_TEXT_WRITING, memory_order_acquire,
                                                memory_order_relaxed))
      break;
    state = OBSERVER_TEXT_READY;
    if (atomic_compare_exchange_strong_explicit(&text->state, &state, OBSERVER_TEXT_WRITING, memory_order_acquire,
                                                memory_order_relaxed))
      break;
    sched_yield();
  }
  text->bytes = (uint32_t)(bytes < sizeof text->text ? bytes : sizeof text->text);
  memcpy(text->text, begin, text->bytes);
  atomic_store_explicit(&text->state, OBSERVER_TEXT_READY, memory_order_release);
}

size_t observer_text_take(struct observer_text *text) {
  uint32_t state = OBSERVER_TEXT_READY;
  if (!atomic_compare_exchange_strong_explicit(&text->state, &state, OBSERVER_TEXT_READING, memory_order_acquire,
                                               memory_order_relaxed))
    return 0;
  if (text->bytes > 0)
    return text->bytes;
  atomic_store_explicit(&text->state, OBSERVER_TEXT_NONE, memory_order_release);
  return 0;
}

void observer_text_taken(struct observer_text *text, bool keep) {
  atomic_store_explicit(&text->state, keep ? OBSERVER_TEXT_READY : OBSERVER_TEXT_NONE, memory_order_release);
}
