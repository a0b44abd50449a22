/* What an instruction does to what is known, and what two paths that meet have in common. Internal to CUnwind. */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "values.h"

struct transfer {
  const struct unwind_architecture *architecture;
  struct frame_facts *facts;
  uint64_t loads_before; /* what is loaded shortly before this address gets a symbol; 0: nothing does */
  bool failed;           /* there are too many symbols */
};

/* Does to STATE what OPERATION, of the instruction at ADDRESS, does.
 * Async-signal-safe: yes. Threads: any. */
void cunwind_transfer(struct transfer *transfer, struct abstract_state *state, uint64_t address,
                      const struct code_operation *operation);

/* Keeps in INTO, which belongs to ADDRESS, what STATE says as well. Returns whether INTO changed.
 * Async-signal-safe: yes. Threads: any. */
bool cunwind_state_join(struct transfer *transfer, struct abstract_state *into, const struct abstract_state *state,
                        uint64_t address);

#endif
