/* Recovers the registers that a caller had at its call, from the registers and arguments saved by inner frames. */
#ifndef CALLER_REGISTERS_H
#define CALLER_REGISTERS_H

#include "cursor.h"
#include "dataflow/values.h"

struct caller_registers {
  uint64_t values[CODE_REGISTERS];
  uint64_t known; /* one bit per register */
};

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_callers_bytes(void);

/* Finds the registers that the frame of CURSOR had at its call to the next inner frame. Clears *INTERRUPTED if the
 * frame is the innermost one and in a system call, which counts as a call. Async-signal-safe: as cunwind_unwind.
 * Threads: as cunwind_unwind. */
void cunwind_caller_registers(struct cursor *cursor, bool *interrupted, struct caller_registers *found);

/* Adds the registers KNOWN and the stack pointer SP to VALUES, the symbol values of the frame that FACTS describe.
 * Async-signal-safe: yes. Threads: any. */
void cunwind_caller_learn(const struct unwind_architecture *architecture, const struct caller_registers *known,
                          const struct frame_facts *facts, uint64_t sp, struct symbol_values *values);

#endif
