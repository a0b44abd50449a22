#include "fault_switch.h"

#include "fault_switch_path.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where the file cannot be mapped (another root), no fault is on. */
static struct fault_switch nowhere;
struct fault_switch *volatile fault_switch_state = &nowhere;

/* Before other constructors, which may have faults. */
__attribute__((constructor(101))) static void fault_switch_map(void) {
  int file = open(FAULT_SWITCH_PATH, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return;
  void *mapped = mmap(NULL, sizeof(struct fault_switch), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED)
    fault_switch_state = mapped;
}
