/* The path from an instruction to where its function returns. Internal to CUnwind.
 *
 * Where nothing describes a function, what it is still going to do tells where its return address lies: whatever path
 * it takes, it must come to a return with the stack pointer there. */
#ifndef RETURN_PATH_H
#define RETURN_PATH_H

#include "walk.h"

/* A number that may be known. */
struct known_word {
  bool is_known;
  uint64_t value;
};

/* The registers of a frame that its path to the caller depends on. */
struct frame_registers {
  struct known_word sp, frame_pointer;
  struct known_word link; /* the register that holds a return address; where a call puts it on the stack, none */
};

/* What a function's caller has when it is returned to. */
struct return_place {
  uint64_t sp;
  struct known_word return_address, frame_pointer;
  bool is_straight;         /* there is no other path: not one branch or call on it */
  bool is_by_table;         /* no path leads to the function's program counter but one through a table of addresses */
  bool is_by_frame_pointer; /* how far it is from the stack pointer is not known */
};

/* Bytes of an unwinder's part. Async-signal-safe: yes. Threads: any. */
size_t cunwind_return_paths_bytes(void);

/* Finds where the function of FUNCTION, which has REGISTERS and is at PC, returns to. With BOUNDED, a jump out of
 * FUNCTION goes on to another function in place of a call; without, FUNCTION is but where it may be. Returns false when
 * no path to a return was found, or two that do not agree. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
bool cunwind_return_path(struct walk *walk, struct code_range function, bool bounded, uint64_t pc,
                         const struct frame_registers *registers, struct return_place *place);

#endif
