/* Defines the switch in every C file that has a fault, because some tests compile these files alone. The linker keeps
 * one definition. */
#ifndef FAULT_SWITCH_HERE_H
#define FAULT_SWITCH_HERE_H

#include "include/fault_switch.h"

#include "fault_switch_path.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* No fault is on if the file cannot be mapped, for example under another root. */
__attribute__((weak)) struct fault_switch fault_switch_nowhere;
__attribute__((weak)) struct fault_switch *volatile fault_switch_state = &fault_switch_nowhere;

/* Runs before other constructors, which can have faults. */
__attribute__((weak, constructor(101))) void fault_switch_map(void) {
  if (fault_switch_state != &fault_switch_nowhere)
    return;
  int file = open(FAULT_SWITCH_PATH, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return;
  void *mapped = mmap(NULL, sizeof(struct fault_switch), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED)
    fault_switch_state = mapped;
}

#endif
