#ifndef EXPRESSION_H
#define EXPRESSION_H

#include "walk.h"

typedef bool (*expression_register)(void *frame, int number, uint64_t *value);

/* Evaluates the DWARF expression at ADDRESS, which begins with its length, with the registers that FIND_REGISTER
 * returns for FRAME. Unless INITIAL is NULL, *INITIAL is the first stack entry. Returns false if a register is unknown,
 * memory cannot be read or the expression is not valid in unwind tables. Async-signal-safe: as cunwind_unwind. Threads:
 * as cunwind_unwind. */
bool cunwind_evaluate(struct walk *walk, uint64_t address, expression_register find_register, void *frame,
                      const uint64_t *initial, uint64_t *value);

#endif
