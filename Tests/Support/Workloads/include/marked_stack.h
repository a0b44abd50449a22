/* Threads with a mark on their stacks, which can be found in any copy of the stack. */
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

/* Starts a thread. It calls MARK with CONTEXT, and true after the mark is on its stack, false before the mark is
 * removed. Returns NULL if no thread can be started. */
struct marked_stack *marked_stack_start(enum marked_way way, void (*mark)(bool begins, void *context), void *context);

/* Returns the lowest address of the mark. */
uint64_t marked_stack_address(const struct marked_stack *stack);

/* Ends the thread and joins it. */
void marked_stack_end(struct marked_stack *stack);

/* Whether the LENGTH bytes at BYTES, which is aligned to 8, contain at least 512 bytes of the mark. */
bool marked_stack_is_in(const uint8_t *bytes, size_t length);

#ifdef __cplusplus
}
#endif

#endif
