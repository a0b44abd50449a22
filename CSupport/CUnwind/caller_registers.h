/* What a caller had in its registers when it made a call, as far as the frames inside of it still tell: in what they
 * have saved, or in arguments that they have kept. Internal to CUnwind. */
#ifndef CALLER_REGISTERS_H
#define CALLER_REGISTERS_H

#include "cursor.h"
#include "dataflow/values.h"

struct caller_registers {
  uint64_t values[CODE_REGISTERS];
  uint64_t known; /* a bit for each register */
};

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_callers_bytes(void);

/* Finds the registers that the frame of CURSOR had when it made the call that its walk's stack shows it in. Clears
 * *INTERRUPTED when the frame is the innermost one and in a system call, which is a call, too.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_caller_registers(struct cursor *cursor, bool *interrupted, struct caller_registers *found);

/* Adds KNOWN and the stack pointer SP to VALUES, which are about the frame of FACTS.
 * Async-signal-safe: yes. Threads: any. */
void cunwind_caller_learn(const struct unwind_architecture *architecture, const struct caller_registers *known,
                          const struct frame_facts *facts, uint64_t sp, struct symbol_values *values);

#endif
