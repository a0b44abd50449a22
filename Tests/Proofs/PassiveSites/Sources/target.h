/* A program that is run instruction by instruction. */
#ifndef TARGET_H
#define TARGET_H

#include "CUnwind.h"

struct target {
  const struct unwind_architecture *architecture;
  /* Reads the registers of the thread. Returns false if the thread has ended. */
  bool (*registers)(struct unwind_registers *registers);
  bool (*read)(uint64_t address, void *destination, size_t length);
  /* Runs one instruction, or delivers SIGNAL if it is not 0. Returns the thread's next signal, 0 if none, or -1 if the
   * thread has ended. */
  int (*step)(int signal);
  void (*end)(void);
};

/* Starts COMMAND and runs it to its first instruction. Ends the process with a message on failure. */
const struct target *target_native(char **command);
/* Starts an aarch64 COMMAND like target_native, in qemu-aarch64-static with its GDB stub. */
const struct target *target_aarch64(char **command);

#endif
