#ifndef AARCH64_DECODER_H
#define AARCH64_DECODER_H

#include "../decode.h"

/* Implements `decode` of struct unwind_architecture. Async-signal-safe: yes. Threads: any. */
size_t cunwind_aarch64_decode(const uint8_t *code, uint64_t address, struct code_operation *operations, int *count);

#endif
