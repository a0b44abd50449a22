#define _GNU_SOURCE
#include "cprocess_escalation.h"

#include <sched.h>
#include <string.h>
CLINUX_RESIDENT_CODE

void cprocess_escalation_set_reason(struct cprocess_escalation *escalation, const char *text, size_t bytes) {
  uint32_t stored = (uint32_t)(bytes < CPROCESS_REASON_BYTES ? bytes : CPROCESS_REASON_BYTES);
  escalation->termination.reason_bytes = stored;
  memcpy(escalation->reason, text, stored);
}

bool cprocess_escalation_read_termination(const struct cprocess_escalation *escalation, uint32_t number,
                                          struct cprocess_termination_request *request, void *reason) {
  *request = escalation->termination;
  memcpy(reason, escalation->reason, CPROCESS_REASON_BYTES);
  atomic_thread_fence(memory_order_acquire);
  return cprocess_escalation_question(escalation) == number;
}

void cprocess_text_put(struct cprocess_text *text, uint32_t number, const char *begin, size_t bytes) {
  for (;;) {
    uint32_t state = CPROCESS_TEXT_NONE;
    if (atomic_compare_exchange_strong_explicit(&text->state, &state, CPROCESS_TEXT_WRITING, memory_order_acquire,
                                                memory_order_relaxed))
      break;
    state = CPROCESS_TEXT_READY;
    if (atomic_compare_exchange_strong_explicit(&text->state, &state, CPROCESS_TEXT_WRITING, memory_order_acquire,
                                                memory_order_relaxed))
      break;
    sched_yield();
  }
  text->number = number;
  text->bytes = (uint32_t)(bytes < sizeof text->text ? bytes : sizeof text->text);
  memcpy(text->text, begin, text->bytes);
  atomic_store_explicit(&text->state, CPROCESS_TEXT_READY, memory_order_release);
}

size_t cprocess_text_take(struct cprocess_text *text) {
  uint32_t state = CPROCESS_TEXT_READY;
  if (!atomic_compare_exchange_strong_explicit(&text->state, &state, CPROCESS_TEXT_READING, memory_order_acquire,
                                               memory_order_relaxed))
    return 0;
  if (text->bytes > 0)
    return text->bytes;
  atomic_store_explicit(&text->state, CPROCESS_TEXT_NONE, memory_order_release);
  return 0;
}

void cprocess_text_taken(struct cprocess_text *text, bool keep) {
  atomic_store_explicit(&text->state, keep ? CPROCESS_TEXT_READY : CPROCESS_TEXT_NONE, memory_order_release);
}
