/* Links between frames: whether a return address is one of a call of a certain function. Internal to the observer. */
#ifndef LINKS_H
#define LINKS_H

#include "frame_facts.h"

#if defined(__x86_64__) || defined(__aarch64__)

enum observer_link {
  OBSERVER_LINK_NONE = 0, /* no call stands before the return address, or one of another function */
  OBSERVER_LINK_PERHAPS,  /* a call through a register or memory, which may lead anywhere; or the kernel's of a handler */
  OBSERVER_LINK_PART,     /* a call of a function of which this one is a part that stands elsewhere */
  OBSERVER_LINK_CERTAIN,  /* a call of the function: directly, through a linkage stub or the loader's table, or of one that
                             goes on to it by a jump */
};

/* How the call before RETURN_ADDRESS is linked to the frame of FUNCTION. Sets *WHOLE, for OBSERVER_LINK_PART, to the
 * function that was called.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
enum observer_link observer_link_before(uint64_t return_address, struct code_range function, struct code_range *whole);

/* The same for the frame of CURSOR, which is in a call of an unknown function: by what it calls, as far as its registers
 * and its memory still tell. OBSERVER_LINK_NONE is no proof then: memory may have changed since.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
enum observer_link observer_link_of_frame(struct walk *walk, unw_cursor_t *cursor, struct code_range function);

/* Forgets which functions jump where. To be called before a search.
 * Async-signal-safe: yes. Threads: as observer_unwind. */
void observer_links_forget(void);

#endif
#endif
