/* Call sites: whether a return address is one of a call of a certain function. Internal to CUnwind. */
#ifndef CALL_SITE_H
#define CALL_SITE_H

#include "cursor.h"

enum call_site {
  CALL_SITE_OTHER = 0, /* no call stands before the return address, or one of another function */
  CALL_SITE_POSSIBLE,  /* a call through a register or memory, which may lead anywhere; or the kernel's of a handler */
  CALL_SITE_OF_WHOLE,  /* a call of a function of which this one is a part that stands elsewhere */
  CALL_SITE_CERTAIN, /* a call of the function: directly, through a PLT stub or the global offset table, or of one that
                        goes on to it by a jump */
};

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_call_sites_bytes(void);

/* What kind of call ends at RETURN_ADDRESS, in any memory that can be read, and where a direct one leads to.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
enum unwind_call_kind cunwind_call_before(struct unwinder *unwinder, uint64_t return_address, uint64_t *target);

/* Where the PLT stub at ADDRESS leads to; ADDRESS itself where there is none.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
uint64_t cunwind_resolve_plt(struct unwinder *unwinder, uint64_t address);

/* What the call before RETURN_ADDRESS is to the frame of FUNCTION. Sets *WHOLE, for CALL_SITE_OF_WHOLE, to the function
 * that was called. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
enum call_site cunwind_call_site_before(struct unwinder *unwinder, uint64_t return_address, struct code_range function,
                                        struct code_range *whole);

/* The same for the frame of CURSOR, which is in a call of an unknown function: by what it calls, as far as its
 * registers and its memory still tell. CALL_SITE_OTHER is no proof then: memory may have changed since.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
enum call_site cunwind_call_site_of_frame(struct cursor *cursor, struct code_range function);

/* Forgets which functions jump where. To be called before a search.
 * Async-signal-safe: yes. Threads: as cunwind_unwind. */
void cunwind_call_sites_forget(struct unwinder *unwinder);

#endif
