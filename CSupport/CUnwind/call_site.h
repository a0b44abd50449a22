/* Call sites: whether a return address follows a call of a given function. */
#ifndef CALL_SITE_H
#define CALL_SITE_H

#include "cursor.h"

enum call_site {
  CALL_SITE_OTHER = 0, /* the return address follows no call, or a call of another function */
  CALL_SITE_POSSIBLE,  /* a call through a register or memory, which can lead anywhere, or the kernel's call of a signal
                          handler */
  CALL_SITE_OF_WHOLE,  /* a call of the whole function, of which the given function is an outlined part */
  CALL_SITE_CERTAIN, /* a call of the function: direct, through a PLT stub or the global offset table, or of a function
                        that tail-calls it */
};

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_call_sites_bytes(void);

/* Returns the kind of call that ends at RETURN_ADDRESS, in any readable memory. Sets *TARGET for a direct call.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
enum unwind_call_kind cunwind_call_before(struct unwinder *unwinder, uint64_t return_address, uint64_t *target);

/* Returns the target of the PLT stub at ADDRESS, or ADDRESS itself if it is not a PLT stub. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
uint64_t cunwind_resolve_plt(struct unwinder *unwinder, uint64_t address);

/* Classifies the call before RETURN_ADDRESS as a call of FUNCTION. For CALL_SITE_OF_WHOLE, sets *WHOLE to the called
 * function. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
enum call_site cunwind_call_site_before(struct unwinder *unwinder, uint64_t return_address, struct code_range function,
                                        struct code_range *whole);

/* Classifies the indirect call in progress in CURSOR's frame as a call of FUNCTION, by its operands. CALL_SITE_OTHER is
 * not certain, because memory might have changed since the call. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
enum call_site cunwind_call_site_of_frame(struct cursor *cursor, struct code_range function);

/* Clears the cache of tail calls. Must be called before each search. Async-signal-safe: yes. Threads: as
 * cunwind_unwind. */
void cunwind_call_sites_forget(struct unwinder *unwinder);

#endif
