#include "clinux_context.h"

_Thread_local int clinux_context __attribute__((tls_model("initial-exec"))) = 0;

/* One bit for each context in use. */
static _Atomic uint32_t taken;

int clinux_context_enter(void) {
  for (int number = 1; number < CLINUX_CONTEXTS_MAX; number++) {
    uint32_t bit = UINT32_C(1) << number;
    if (!(atomic_fetch_or_explicit(&taken, bit, memory_order_acquire) & bit)) {
      clinux_context = number;
      return number;
    }
  }
  return 0;
}

void clinux_context_enter_watchers(void) { clinux_context = CLINUX_WATCHERS_CONTEXT; }

void clinux_context_forget_parent(void) { atomic_store_explicit(&taken, 0, memory_order_relaxed); }

void clinux_context_leave(void) {
  uint32_t bit = UINT32_C(1) << clinux_context;
  if (clinux_context != 0)
    atomic_fetch_and_explicit(&taken, ~bit, memory_order_release);
  clinux_context = 0;
}
