/* Finds the frames of a copied stack.
 *
 * An unwinder finds frames by the modules' unwind tables, and by code analysis where the tables have no information. It
 * uses only the memory it was created in, and neither allocates nor locks, unless its callbacks do. */
#ifndef UNWINDER_H
#define UNWINDER_H

#include "stack_copy.h"
#include "unwind_architecture.h"
#include "unwind_stack.h"

struct unwinder;

/* Size of an unwinder, in bytes. Async-signal-safe: yes. Threads: any. */
size_t cunwind_bytes(void);

/* Creates an unwinder for stacks of PROCESS, whose processor architecture is ARCHITECTURE. MEMORY has cunwind_bytes()
 * zero bytes, aligned as by malloc(3). Async-signal-safe: yes. Threads: any. */
struct unwinder *cunwind_create(void *memory, const struct unwind_architecture *architecture,
                                struct unwind_process process);

/* Unwinds COPY into STACK. The caller provides room for the frames. Async-signal-safe: if the callbacks are. Threads:
 * one at a time for each unwinder. */
void cunwind_unwind(struct unwinder *unwinder, const struct stack_copy *copy, struct unwind_stack *stack);

/* If STACK, unwound from COPY with its places, is complete, keeps STACK for ITEM. Otherwise appends to STACK those
 * frames of ITEM's kept stack that are still live; STACK then records the index of the first joined frame, and ends as
 * the kept stack does.
 *
 * Remnants of finished calls look like live frames. A kept frame is joined only if one of these facts proves it live:
 * outer calls can have led only to its function; inner frame pointers lead to the frame; or no other return address
 * lies between the frame and the end of the stack. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_join(struct unwinder *unwinder, const struct stack_copy *copy, struct unwind_work_item item,
                  struct unwind_stack *stack);

/* Clears cached facts about code unless all their modules are unchanged. Must be called before a stall is sampled.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_begin_sample(struct unwinder *unwinder);

/* Clears cached facts about code, even if modules are unchanged. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
void cunwind_forget(struct unwinder *unwinder);

/* Wipes cached writable memory of the process, such as stacks and the heap. Async-signal-safe: yes. Threads: as
 * cunwind_unwind. */
void cunwind_wipe(struct unwinder *unwinder);

#endif
