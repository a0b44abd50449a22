/* Threads whose stacks have a mark on them that can be found again wherever it is copied to. */
#ifndef MARKED_STACK_H
#define MARKED_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The thread sleeps in one call, computes, or computes with a mark that is longer than a usual stack copy. */
enum marked_way { MARKED_ASLEEP, MARKED_COMPUTING, MARKED_DEEP };

struct marked_stack;

/* Starts one. It calls MARK with CONTEXT, true once the mark is there and false when it is gone again. NULL when no
 * thread can be had. */
struct marked_stack *marked_stack_start(enum marked_way way, void (*mark)(bool begins, void *context), void *context);

/* An address on its stack, at the mark. */
uint64_t marked_stack_address(const struct marked_stack *stack);

/* Ends it, and waits for that. */
void marked_stack_end(struct marked_stack *stack);

/* Whether the LENGTH bytes at BYTES, which is aligned to 8, have half a kibibyte of the mark. */
bool marked_stack_is_in(const uint8_t *bytes, size_t length);

#ifdef __cplusplus
}
#endif

#endif
