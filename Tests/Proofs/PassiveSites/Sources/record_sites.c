/* Runs a generated call chain and records its stack in the blocking call: record_sites FILE-TO-LOCK NAME NUMBER. */
#include "hooks.h"
#include "sites.h"

#include <stdlib.h>

int main(int count, char **arguments) {
  if (count != 4)
    return 2;
  announce();
  blocks_prepare(arguments[1]);
  hook(HOOK_BLOCK, (unsigned long)arguments[2], (unsigned long)&arrived, 0, 0);
  hook(HOOK_SURVEY, 1, 0, 0, 0);
  sink += site_run(atoi(arguments[3]));
  return 0;
}
