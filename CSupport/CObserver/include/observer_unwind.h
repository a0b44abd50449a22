/* Frames from a copied stack.
 *
 * libunwind unwinds the copy through its remote interface: the registers and the stack come from the copy, unwind tables
 * and code are read from the process in a way that survives a page that is gone. A copy of the library is loaded that
 * nobody else has: linked normally it would put its own _Unwind_* and backtrace in front of the service's, and a library
 * that the service uses as well would have its locks in common with it.
 */
#ifndef OBSERVER_UNWIND_H
#define OBSERVER_UNWIND_H

#include "observer_base.h"
#include "observer_capture.h"

/* What an address in a stack is. */
enum observer_frame_kind {
  OBSERVER_PROGRAM_COUNTER = 0, /* the instruction that was about to run: look it up as it is */
  OBSERVER_RETURN_ADDRESS = 1,  /* the instruction after a call: look up the address minus one */
};

struct observer_frame {
  uint64_t address;
  uint32_t kind;   /* enum observer_frame_kind */
  uint32_t offset; /* of ADDRESS from the beginning of its function; OBSERVER_NO_OFFSET where that is not known */
};

#define OBSERVER_NO_OFFSET UINT32_MAX

/* So many of the innermost frames are kept of a stack with more than OBSERVER_FRAMES_MAX; the others are the outermost. */
#define OBSERVER_FRAMES_INNER (OBSERVER_FRAMES_MAX / 2)

/* Why a stack has no more frames. Everything but OBSERVER_END_OUTERMOST means that callers are missing. */
enum observer_stack_end {
  OBSERVER_END_OUTERMOST = 0,      /* the thread's first function was reached */
  OBSERVER_END_COPY = 1,           /* the copy was shorter than the stack */
  OBSERVER_END_FRAME_LIMIT = 2,    /* there are too many frames to go through */
  OBSERVER_END_NO_UNWIND_INFO = 3, /* a function says nothing about its caller and keeps no frame pointer */
  OBSERVER_END_NO_MODULE = 4,      /* a return address is in no module */
  OBSERVER_END_UNREADABLE = 5,     /* memory that was needed could not be read */
  OBSERVER_END_NO_PROGRESS = 6,    /* a frame led to itself */
  OBSERVER_END_FAILED = 7,         /* libunwind gave up for another reason */
  OBSERVER_END_NOT_CAPTURED = 8,   /* there was no copy to unwind; see the capture status */
  OBSERVER_END_NO_REGISTER = 9,    /* a register is needed that a thread read from outside does not give */
};

struct observer_stack {
  struct observer_frame *frames; /* room for OBSERVER_FRAMES_MAX, given by the caller; innermost first */
  uint64_t *places;     /* NULL, or as much room: where on the stack each frame's address was found; 0: not known */
  uint32_t count;       /* how many there are */
  uint32_t left_out;    /* frames that are not among them, behind the first OBSERVER_FRAMES_INNER */
  uint32_t joined_from; /* the number of the first frame that is an earlier stack's (observer_join.h); 0: none is */
  enum observer_stack_end end;
  uint64_t unwind_ns;   /* time spent unwinding */
  /* The outermost frame that was found: what its caller has is above its stack pointer. */
  uint64_t last_sp;
  uint64_t last_frame_pointer; /* what it has in the frame pointer; 0: not known */
};

/* Loads libunwind and prepares unwinding. Further calls do nothing, but in a child of the process. Returns NULL, or a sentence about what is missing
 * (static storage, never freed).
 * Async-signal-safe: no. Threads: any, one at a time. */
const char *observer_unwind_start(void);

/* Prepares unwinding in the calling thread's context, once observer_unwind_start has returned NULL. Its caches are large if
 * IS_FIRST, and take half a mebibyte then. Returns as observer_unwind_start does.
 * Async-signal-safe: no. Threads: any. */
const char *observer_unwind_prepare(bool is_first);
/* Whether what is loaded is a copy that nobody else has. Async-signal-safe: yes. Threads: any, after the above. */
bool observer_unwind_is_private(void);

/* Unwinds COPY into STACK, whose frames the caller provides room for.
 * Async-signal-safe: no, but takes no lock that another thread can hold, and maps memory at most. Threads: one at a
 * time in each context, once observer_unwind_start or observer_unwind_prepare has returned NULL there. */
OBSERVER_NO_LOCKS void observer_unwind(const struct observer_copy *copy, struct observer_stack *stack);

/* Forgets what was learnt about code. To be called before a stall is sampled: a module may have been replaced since.
 * Async-signal-safe: no, but as observer_unwind. Threads: as observer_unwind. */
OBSERVER_NO_LOCKS void observer_unwind_forget(void);

#endif
