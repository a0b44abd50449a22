/* Chain functions compiled without unwind tables. */
#include "sites.h"

__attribute__((noinline)) static int innermost(int (*function)(void *), void *context) {
  volatile int kept = 1;
  int result = function(context);
  return result + kept;
}

static int (*volatile middle)(int (*)(void *), void *) = innermost;

__attribute__((noinline)) static int outer(int (*function)(void *), void *context, int depth) {
  volatile char room[40];
  room[0] = (char)depth;
  if (depth > 0)
    return outer(function, context, depth - 1) + room[0];
  return middle(function, context) + room[0];
}

int through_flagged(int (*function)(void *), void *context) { return outer(function, context, 2) + 1; }

int through_flagged_alloca(int (*function)(void *), void *context) {
  volatile char *taken = __builtin_alloca((unsigned)(sink & 63) + 16);
  taken[0] = 1;
  int result = innermost(function, context);
  return result + taken[0];
}
