#ifndef TRANSFER_H
#define TRANSFER_H

#include "values.h"

struct transfer {
  const struct unwind_architecture *architecture;
  struct frame_facts *facts;
  uint64_t loads_before; /* loads shortly before this address get symbols */
  bool failed;           /* the symbol table is full */
};

/* Applies OPERATION, a part of the instruction at ADDRESS, to STATE. Async-signal-safe: yes. Threads: any. */
void cunwind_transfer(struct transfer *transfer, struct abstract_state *state, uint64_t address,
                      const struct code_operation *operation);

/* Removes from INTO, the state at ADDRESS, everything that STATE does not confirm. For states joined from several
 * instructions, ADDRESS is 0, 1 or 2. Returns whether INTO changed. Async-signal-safe: yes. Threads: any. */
bool cunwind_state_join(struct transfer *transfer, struct abstract_state *into, const struct abstract_state *state,
                        uint64_t address);

#endif
