/* The unwinder's transfer of an exception to the handling frame. */
#include "kinds.h"

#include <unwind.h>

namespace {

struct Guard {
  ~Guard() { kinds_sink = kinds_sink + 1; }
};

KEPT void thrower(long number) {
  kinds_inner();
  throw number;
}

KEPT void passes_on(long number) {
  Guard guard;
  thrower(number);
}

KEPT long catches(long number) {
  try {
    passes_on(number);
  } catch (long caught) {
    return caught + 1;
  }
  return 0;
}

} // namespace

extern "C" void kinds_exception(void);

extern "C" KEPT void kinds_exception(void) {
  void *unwinder = reinterpret_cast<void *>(&_Unwind_RaiseException);
  kinds_sink = kinds_sink + catches(1);
  watch("exception-begins", unwinder, 40);
  watch("exception-handed-over-12", unwinder, -12);
  watch("exception-handed-over-6", unwinder, -6);
  kinds_sink = kinds_sink + catches(1);
  kinds_sink = kinds_sink + catches(2);
}
