#ifndef EXPRESSION_H
#define EXPRESSION_H

#include "walk.h"

typedef bool (*expression_register)(void *frame, int number, uint64_t *value);

/* Evaluates WALK's expression at ADDRESS, where its length is, with the registers that FIND_REGISTER returns for FRAME
 * and, unless it is NULL, *INITIAL as its initial stack entry. Returns false if a register is unknown, memory cannot be
 * read or the expression is not valid in unwind tables. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
bool cunwind_evaluate(struct walk *walk, uint64_t address, expression_register find_register, void *frame,
                      const uint64_t *initial, uint64_t *value);

#endif
