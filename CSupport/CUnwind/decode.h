#ifndef DECODE_H
#define DECODE_H

#include "unwind_code.h"
#include "walk.h"

/* Reads the instruction of the process at ADDRESS and decodes it into *COUNT operations, in execution order. Returns
 * the instruction's length in bytes, or 0 if it cannot be read or decoded. Memory after the instruction need not be
 * readable. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
size_t cunwind_decode_at(struct unwinder *unwinder, uint64_t address, struct code_operation *operations, int *count);

/* Reads CODE_BYTES bytes of code at ADDRESS, or fewer at the end of readable memory; the rest is 0. Async-signal-safe:
 * as cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_read_code(struct unwinder *unwinder, uint64_t address, uint8_t *code);

#endif
