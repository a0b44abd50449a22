/* A stack that was unwound, and the process that it is of. */
#ifndef UNWIND_STACK_H
#define UNWIND_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct unwind_module {
  uint64_t start;        /* lowest address of the module's mappings */
  uint64_t end;          /* one past the highest */
  uint64_t eh_frame_hdr; /* address of its .eh_frame_hdr (PT_GNU_EH_FRAME), 0 if it has none */
};

/* The process that stacks are of. The callbacks are called by whoever unwinds, with CONTEXT. */
struct unwind_process {
  /* Reads LENGTH bytes at ADDRESS to DESTINATION. Returns false when not all of them can be read. */
  bool (*read)(void *context, uint64_t address, void *destination, size_t length);
  /* Finds the module that ADDRESS is in. Returns false when there is none. */
  bool (*find_module)(void *context, uint64_t address, struct unwind_module *module);
  void *context;
};

/* The most frames one stack has; more are left out, and the stack says so. */
#define UNWIND_FRAMES_MAX 512

/* So many of the innermost frames are kept of a stack with more than UNWIND_FRAMES_MAX; the others are the outermost.
 */
#define UNWIND_FRAMES_INNER (UNWIND_FRAMES_MAX / 2)

/* What an address in a stack is. */
enum unwind_frame_kind {
  UNWIND_PROGRAM_COUNTER = 0, /* the instruction that was about to run: look it up as it is */
  UNWIND_RETURN_ADDRESS = 1,  /* the instruction after a call: look up the address minus one */
  /* Found by whoever knows the language's runtime, behind the frames of what a task runs: */
  UNWIND_ASYNC_CALLER = 2, /* where a caller goes on: look it up as it is */
  UNWIND_TASK_START = 3,   /* where the last of them returns to, which is no caller */
  UNWIND_CHILD_START = 4,  /* the same of a child task: its parent's callers follow, where they are known */
  UNWIND_TASK_LOST = 5,    /* instead of all of them: a task whose callers could not be read */
};

#define UNWIND_NO_OFFSET UINT32_MAX

struct unwind_frame {
  uint64_t address;
  uint32_t kind;   /* enum unwind_frame_kind */
  uint32_t offset; /* of ADDRESS from the beginning of its function; UNWIND_NO_OFFSET where that is not known */
};

/* Why a stack has no more frames. Everything but UNWIND_END_OUTERMOST means that callers are missing. */
enum unwind_end {
  UNWIND_END_OUTERMOST = 0,      /* the thread's first function was reached */
  UNWIND_END_COPY = 1,           /* the copy was shorter than the stack */
  UNWIND_END_FRAME_LIMIT = 2,    /* there are too many frames to go through */
  UNWIND_END_NO_UNWIND_INFO = 3, /* a function says nothing about its caller and keeps no frame pointer */
  UNWIND_END_NO_MODULE = 4,      /* a return address is in no module */
  UNWIND_END_UNREADABLE = 5,     /* memory that was needed could not be read */
  UNWIND_END_NO_PROGRESS = 6,    /* a frame led to itself */
  UNWIND_END_FAILED = 7,         /* libunwind gave up for another reason */
  UNWIND_END_NOT_CAPTURED = 8,   /* there was no copy to unwind; see the capture status */
  UNWIND_END_NO_REGISTER = 9,    /* a register is needed that a thread read from outside does not give */
};

struct unwind_stack {
  struct unwind_frame *frames; /* room for UNWIND_FRAMES_MAX, given by the caller; innermost first */
  uint64_t *places;     /* NULL, or as much room: where on the stack each frame's address was found; 0: not known */
  uint32_t count;       /* how many there are */
  uint32_t left_out;    /* frames that are not among them, behind the first UNWIND_FRAMES_INNER */
  uint32_t joined_from; /* the number of the first frame that is an earlier stack's (cunwind_join); 0: none is */
  enum unwind_end end;
  uint64_t unwind_ns; /* for whoever measures it: time spent unwinding */
  /* The outermost frame that was found: what its caller has is above its stack pointer. */
  uint64_t last_sp;
  uint64_t last_frame_pointer; /* what it has in the frame pointer; 0: not known */
};

/* Whose stack it is: stacks of different ones have nothing in common. */
struct unwind_work_item {
  uint32_t slot, generation;
  uint64_t began_ns; /* 0: none, whose stacks are neither kept nor joined */
  int32_t tid;
};

#endif
