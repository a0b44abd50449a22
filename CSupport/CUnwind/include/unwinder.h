/* Finds the frames of a copied stack.
 *
 * The unwinder's input is a copied stack and two callbacks: one reads the memory of the stack's process, the other
 * finds its modules. The unwinder does not deal with threads or signals and uses only the memory it was created in. It
 * finds frames by the modules' unwind tables (through libunwind's remote interface, for libunwind's own architecture),
 * and by code analysis where the tables have no information.
 *
 * After setup an unwinder does not allocate (libunwind maps memory at most), and it takes no lock that another unwinder
 * can hold. */
#ifndef UNWINDER_H
#define UNWINDER_H

#include "stack_copy.h"
#include "unwind_architecture.h"
#include "unwind_stack.h"

struct unwinder;

/* Loads a private copy of libunwind. A copy shared with the service would also share its locks. Without the library,
 * unwinders work in plain mode (docs/internals/unwinding.md). Repeated calls have no effect, except in a child process.
 * Returns NULL, or a sentence that explains why no stack can be unwound (static storage, never freed).
 * Async-signal-safe: no. Threads: any, one at a time. */
const char *cunwind_load(void);

/* Returns NULL if libunwind was loaded, or a sentence that explains why not (static storage, never freed). Without
 * libunwind, unwinders work in plain mode: they find callers by code analysis alone, and more stacks end early.
 * Async-signal-safe: yes. Threads: any, after cunwind_load. */
const char *cunwind_missing_library(void);

/* Whether the loaded copy of libunwind is private. Async-signal-safe: yes. Threads: any, after cunwind_load. */
bool cunwind_library_is_private(void);

/* Size of an unwinder, in bytes. Async-signal-safe: yes. Threads: any. */
size_t cunwind_bytes(void);

/* Creates an unwinder for stacks of PROCESS, whose processor architecture is ARCHITECTURE. MEMORY has cunwind_bytes()
 * zero bytes, aligned as by malloc(3). The unwinder uses code analysis alone until cunwind_use_libunwind is called.
 * Async-signal-safe: yes. Threads: any. */
struct unwinder *cunwind_create(void *memory, const struct unwind_architecture *architecture,
                                struct unwind_process process);

/* Lets UNWINDER use libunwind, which must have UNWINDER's architecture. HAS_LARGE_CACHES takes half a mebibyte more.
 * Without the library (cunwind_missing_library) UNWINDER stays in plain mode. Returns as cunwind_load does.
 * Async-signal-safe: no. Threads: any. */
const char *cunwind_use_libunwind(struct unwinder *unwinder, bool has_large_caches);

/* Unwinds COPY into STACK. The caller provides room for the frames. Async-signal-safe: no, but takes no lock that
 * another unwinder can hold, and maps memory at most. Threads: one at a time for each unwinder. */
void cunwind_unwind(struct unwinder *unwinder, const struct stack_copy *copy, struct unwind_stack *stack);

/* Keeps STACK, unwound from COPY with its places, if it is complete. Otherwise adds the outer frames of ITEM's last
 * complete stack as far as they are still in place. STACK then records the index of the first joined frame, and its end
 * is the earlier stack's end.
 *
 * The outer frames of a thread's stack stay in place during one work item. If a stack ends early but the copy still
 * holds an earlier complete stack's return addresses in their places, the earlier outer frames also belong to this
 * stack. Remnants of finished calls look identical. A frame is therefore joined only if one of these proves that it is
 * live: calls further out that can have led to one function only; frame pointers further in that lead to it; or the
 * absence of any other return address between it and the end of the stack. Async-signal-safe: as cunwind_unwind.
 * Threads: as cunwind_unwind. */
void cunwind_join(struct unwinder *unwinder, const struct stack_copy *copy, struct unwind_work_item item,
                  struct unwind_stack *stack);

/* Clears cached facts about code unless all their modules are unchanged: at the same place, with the same build ID.
 * Must be called before a stall is sampled, because a module might have been replaced. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
void cunwind_begin_look(struct unwinder *unwinder);

/* Clears cached facts about code, even if modules are unchanged. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
void cunwind_forget(struct unwinder *unwinder);

/* Wipes cached memory of the process that can change without its module: other stacks and the heap. Async-signal-safe:
 * yes. Threads: as cunwind_unwind. */
void cunwind_wipe(struct unwinder *unwinder);

/* Selects whether UNWINDER steps by cached rules (docs/internals/unwinding.md), the default, or by libunwind alone, for
 * comparisons. No effect in plain mode. Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_use_rules(struct unwinder *unwinder, bool use);

#endif
