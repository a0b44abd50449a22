/* Frames from a copied stack.
 *
 * An unwinder is given a copied stack, and two callbacks: one reads the memory of the process that the stack is of, one
 * finds its modules. It knows nothing of threads and signals, and has no memory but what it was created in. Frames are
 * found by the modules' unwind tables (with libunwind's remote interface, on the architecture that it was built for),
 * and where these say nothing by what the code does.
 *
 * Nothing here allocates once an unwinder is set up (libunwind maps memory at most), and nothing takes a lock that
 * another unwinder can hold. */
#ifndef UNWINDER_H
#define UNWINDER_H

#include "stack_copy.h"
#include "unwind_architecture.h"
#include "unwind_stack.h"

struct unwinder;

/* Loads libunwind: a copy that nobody else in the process has, because a library that the service uses as well would
 * have its locks in common with it. Where the library is missing, unwinders work in plain mode (docs/unwinding.md).
 * Further calls do nothing, but in a child of the process. Returns NULL, or a sentence about why no stack can be
 * unwound at all (static storage, never freed). Async-signal-safe: no. Threads: any, one at a time. */
const char *cunwind_load(void);

/* Plain mode: NULL if libunwind was loaded, or a sentence about why it was not (static storage, never freed). Without
 * it callers are found by what code does alone, and more stacks end early. Async-signal-safe: yes. Threads: any, after
 * the above. */
const char *cunwind_missing_library(void);

/* Whether nobody else has what is loaded. Async-signal-safe: yes. Threads: any, after the above. */
bool cunwind_library_is_private(void);

/* How much memory an unwinder takes. Async-signal-safe: yes. Threads: any. */
size_t cunwind_bytes(void);

/* Makes an unwinder for stacks of PROCESS, whose processor is of ARCHITECTURE, in MEMORY: cunwind_bytes() bytes that
 * are 0 and aligned as malloc(3) does. Without cunwind_use_libunwind it goes by what code does alone.
 * Async-signal-safe: yes. Threads: any. */
struct unwinder *cunwind_create(void *memory, const struct unwind_architecture *architecture,
                                struct unwind_process process);

/* Lets UNWINDER use libunwind, which must be of its architecture; with HAS_LARGE_CACHES, half a mebibyte more is taken.
 * Without the library (cunwind_missing_library) UNWINDER stays in plain mode. Returns as cunwind_load does.
 * Async-signal-safe: no. Threads: any. */
const char *cunwind_use_libunwind(struct unwinder *unwinder, bool has_large_caches);

/* Unwinds COPY into STACK, whose frames the caller provides room for.
 * Async-signal-safe: no, but takes no lock that another unwinder can hold, and maps memory at most. Threads: one at a
 * time for each unwinder. */
void cunwind_unwind(struct unwinder *unwinder, const struct stack_copy *copy, struct unwind_stack *stack);

/* Keeps STACK, which was unwound from COPY with its places, if it is complete. If it is not, adds the outer frames of
 * the last complete one of ITEM, as far as they are still there: STACK says from which frame on it was joined, and ends
 * as that did.
 *
 * While a thread is at one work item the outer frames of its stack stay where they are. Where a stack cannot be
 * followed any further, but the copy still holds the return addresses of an earlier, complete stack at the places where
 * that had them, the earlier one's frames are the outer ones of this stack, too. What a call left behind that is over
 * looks the same. So a frame is joined with if that it is alive is shown from outside, by calls that can have led to
 * one function only; from inside, by the frame pointers that lead to it; or if no other return address lies between it
 * and where the stack ended. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_join(struct unwinder *unwinder, const struct stack_copy *copy, struct unwind_work_item item,
                  struct unwind_stack *stack);

/* Forgets what was learnt about code, unless each module that it is in is what it was: at the same place, with the same
 * build-id. To be called before a stall is sampled: a module may have been replaced since. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_begin_look(struct unwinder *unwinder);

/* Forgets what was learnt about code, whatever modules are there.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_forget(struct unwinder *unwinder);

/* Wipes what UNWINDER has read of memory that can change without its module: other stacks, and the heap.
 * Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_wipe(struct unwinder *unwinder);

/* Lets UNWINDER take steps by rules that it remembers (docs/unwinding.md), as it does, or leave them all to libunwind:
 * for comparing. Without effect in plain mode. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_use_rules(struct unwinder *unwinder, bool use);

#endif
