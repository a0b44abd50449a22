/* One unwinding: the memory it reads, and its steps from frame to frame with libunwind's remote interface. Internal
 * to the observer. */
#ifndef UNWIND_WALK_H
#define UNWIND_WALK_H

#if defined(__x86_64__) || defined(__aarch64__)

#include "observer_capture.h"

#include <libunwind.h>

/* libunwind's functions, once observer_unwind_start has loaded it. */
struct unwind_library {
  __typeof__(&unw_create_addr_space) create_addr_space;
  __typeof__(&unw_init_remote) init_remote;
  __typeof__(&unw_step) step;
  __typeof__(&unw_get_reg) get_reg;
  __typeof__(&unw_get_proc_info) get_proc_info;
  __typeof__(&unw_is_signal_frame) is_signal_frame;
  __typeof__(&unw_set_caching_policy) set_caching_policy;
  __typeof__(&unw_set_cache_size) set_cache_size;
  __typeof__(&unw_flush_cache) flush_cache;
  /* Internal to libunwind but exported: binary search in a module's .eh_frame_hdr, and decoding of what it finds. */
  int (*search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int, void *);
};
extern struct unwind_library observer_libunwind;

/* One unwinding. */
struct walk {
  const struct observer_copy *copy;
  struct observer_registers registers; /* those of the copy, and a frame pointer that was recovered */
  int missing;      /* the last register that was asked for and is not known; -1 if none was */
  bool beyond_copy; /* a part of the stack was asked for that the copy lacks */
  bool unreadable;  /* memory was asked for that cannot be read */
  bool no_module;   /* an address is in no module */
  bool no_info;     /* a module has no unwind information for an address */
  uint64_t last_read; /* where the stack was read last; 0: not since this was set to 0 */
};

/* Reads LENGTH bytes of the process at ADDRESS to DESTINATION; returns false when they cannot be read.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_walk_read(uint64_t address, void *destination, size_t length);

/* Reads a word of the stack that WALK is about from its copy, and of the process elsewhere. Returns false when it cannot be
 * read, and notes in WALK why.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_walk_word(struct walk *walk, uint64_t address, uint64_t *value);

/* Forgets memory that was read: what a thread may write to must be read anew for every stack.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
void observer_walk_forget(void);

/* Sets CURSOR to the innermost frame of WALK's copy. Returns false when it cannot be unwound.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_walk_begin(struct walk *walk, unw_cursor_t *cursor);

/* Sets CURSOR to a frame that is known by WALK's registers: for going on in the middle of a walk. Returns false when it
 * cannot be unwound.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_walk_resume(struct walk *walk, unw_cursor_t *cursor);

/* Whether a module's unwind information describes the function around ADDRESS.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_walk_describes(struct walk *walk, uint64_t address);

/* Goes from CURSOR's frame, which was INTERRUPTED by a signal or made a call, to its caller's. Returns 1, or 0 at the
 * outermost frame, or a negative number when it cannot: WALK says why.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
int observer_walk_step(struct walk *walk, unw_cursor_t *cursor, bool interrupted);

/* Whether NOW's frame, to which a step led from BEFORE's, was interrupted by a signal and made no call. libunwind tells
 * it of the interrupted frame on x86_64, and of the frame of the kernel's trampoline, from which the step leads to it,
 * on aarch64.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_walk_interrupted(unw_cursor_t *before, unw_cursor_t *now);

/* A part of the process's code: a function, or the part of one that compilers have put elsewhere; none if both ends are
 * 0. */
struct code_range {
  uint64_t start, end;
  bool catches; /* it has places that only exceptions lead to */
};

/* Finds the function that has the code at ADDRESS, or the one of CURSOR's frame. Returns false when none is described.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_walk_function(uint64_t address, struct code_range *range);
bool observer_walk_frame_function(unw_cursor_t *cursor, struct code_range *range);

/* Finds the code around ADDRESS between two described functions of a module. Returns false when there is no described one
 * before it, or none of it is undescribed.
 * Async-signal-safe: no, but takes no lock that another thread can hold. Threads: as observer_unwind. */
bool observer_walk_between(uint64_t address, struct code_range *range);

#endif
#endif
