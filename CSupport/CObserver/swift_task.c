#include "observer_swift_task.h"

#include "clinux_thread_pointer.h"

/* Of libswift_Concurrency, wherever that is linked. */
extern const char swift_task_getCurrent[] __attribute__((weak));

bool observer_swift_task_storage(int64_t *begin, int64_t *end) {
  return swift_task_getCurrent && clinux_thread_pointer_storage(swift_task_getCurrent, begin, end) == 0;
}
