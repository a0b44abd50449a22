#include "kinds.h"

typedef __attribute__((swiftasynccall)) void async_function(__attribute__((swift_async_context)) char *context);

KEPT __attribute__((swiftasynccall)) static void inner_async(__attribute__((swift_async_context)) char *context) {
  volatile char room[40];
  room[0] = *context;
  kinds_inner();
  kinds_sink += room[0] + *context;
}

KEPT __attribute__((swiftasynccall)) static void outer_async(__attribute__((swift_async_context)) char *context) {
  kinds_inner();
  inner_async(context + 8);
  kinds_sink += *context;
}

void kinds_async(char *context);
KEPT void kinds_async(char *context) {
  async_function *volatile function = outer_async;
  function(context);
  kinds_sink++;
}
