/* The path from an instruction to its function's return: in a function without unwind information, the remaining
 * instructions determine the location of the return address. */
#ifndef RETURN_PATH_H
#define RETURN_PATH_H

#include "walk.h"

struct known_word {
  bool is_known;
  uint64_t value;
};

struct frame_registers {
  struct known_word sp, frame_pointer;
  struct known_word link; /* the register that holds a return address; unused if calls push it on the stack */
};

/* The state of the caller after the return. */
struct return_place {
  uint64_t sp;
  struct known_word return_address, frame_pointer;
  bool is_straight;         /* the path has no branch and no call */
  bool is_by_table;         /* the program counter is reachable only through a table of addresses */
  bool is_by_frame_pointer; /* found by the frame pointer: the distance from the stack pointer is unknown */
};

/* Async-signal-safe: yes. Threads: any. */
size_t cunwind_return_paths_bytes(void);

/* Finds the return place of the function in the range FUNCTION, whose frame has REGISTERS and is at PC. If BOUNDED, a
 * jump out of FUNCTION is a tail call; otherwise, FUNCTION is an area that might contain the function. Returns false if
 * no path to a return was found or two paths disagree. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
bool cunwind_return_path(struct walk *walk, struct code_range function, bool bounded, uint64_t pc,
                         const struct frame_registers *registers, struct return_place *place);

#endif
