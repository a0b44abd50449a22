#ifndef UNWIND_STACK_H
#define UNWIND_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct unwind_module {
  uint64_t start;
  uint64_t end;          /* one past the highest address */
  uint64_t eh_frame_hdr; /* address of .eh_frame_hdr; 0: none */
};

/* Access to the process whose stacks are unwound. Callbacks run on the unwinding thread and receive CONTEXT. */
struct unwind_process {
  /* Reads LENGTH bytes at ADDRESS into DESTINATION. Returns false if any byte cannot be read. */
  bool (*read)(void *context, uint64_t address, void *destination, size_t length);
  /* Finds the module that contains ADDRESS. Returns false if there is none. */
  bool (*find_module)(void *context, uint64_t address, struct unwind_module *module);
  void *context;
};

#define UNWIND_FRAMES_MAX 512

/* Number of innermost frames kept of a stack with more than UNWIND_FRAMES_MAX frames. The other kept frames are the
 * outermost ones. */
#define UNWIND_FRAMES_INNER (UNWIND_FRAMES_MAX / 2)

/* The meaning of a frame's address. */
enum unwind_frame_kind {
  UNWIND_PROGRAM_COUNTER = 0, /* the next instruction to run: symbolize the address itself */
  UNWIND_RETURN_ADDRESS = 1,  /* the instruction after a call: symbolize the address minus one */
  /* Added from the language runtime's data, after the frames of a task's synchronous code: */
  UNWIND_ASYNC_CALLER = 2, /* where a caller resumes: symbolize the address itself */
  UNWIND_TASK_START = 3,   /* the return address of the outermost async frame, not a caller */
  UNWIND_CHILD_START = 4,  /* outermost return address of a child task; its parent's callers follow if known */
  UNWIND_TASK_LOST = 5,    /* in place of all async frames: the task's callers could not be read */
};

#define UNWIND_NO_OFFSET UINT32_MAX

struct unwind_frame {
  uint64_t address;
  uint32_t kind;   /* enum unwind_frame_kind */
  uint32_t offset; /* offset of ADDRESS from its function's beginning; UNWIND_NO_OFFSET if unknown */
};

/* Why a stack has no more frames. Every value except UNWIND_END_OUTERMOST means that callers are missing. */
enum unwind_end {
  UNWIND_END_OUTERMOST = 0,
  UNWIND_END_COPY = 1,           /* the copy was shorter than the stack */
  UNWIND_END_FRAME_LIMIT = 2,    /* the stack has too many frames to follow */
  UNWIND_END_NO_UNWIND_INFO = 3, /* a function has no unwind information and keeps no frame pointer */
  UNWIND_END_NO_MODULE = 4,      /* a return address is in no module */
  UNWIND_END_UNREADABLE = 5,     /* required memory could not be read */
  UNWIND_END_NO_PROGRESS = 6,    /* a frame led to itself */
  UNWIND_END_FAILED = 7,         /* the registers do not give a frame */
  UNWIND_END_NOT_CAPTURED = 8,
  UNWIND_END_NO_REGISTER = 9, /* a required register is not available for a thread read from outside */
};

struct unwind_stack {
  struct unwind_frame *frames; /* provided by the caller with room for UNWIND_FRAMES_MAX; innermost first */
  uint64_t *places;            /* NULL, or for each frame the stack address that held its address; 0: unknown */
  uint32_t count;              /* number of frames */
  uint32_t left_out;           /* number of frames omitted after the first UNWIND_FRAMES_INNER */
  uint32_t joined_from;        /* index of the first frame taken from an earlier stack (cunwind_join); 0: none */
  enum unwind_end end;
  uint64_t unwind_ns; /* for measurements: time spent unwinding */
  /* The outermost frame found: its stack pointer, above which the caller's data lies, and its frame pointer. */
  uint64_t last_sp;
  uint64_t last_frame_pointer; /* 0: unknown */
};

/* The work item of a stack. */
struct unwind_work_item {
  uint32_t slot, generation;
  uint64_t began_ns; /* 0: not a work item; its stacks are neither kept nor joined */
  int32_t tid;
};

#endif
