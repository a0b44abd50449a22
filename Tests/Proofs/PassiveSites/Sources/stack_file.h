/* Files of recorded stacks, described in Tests/Fixtures/README.md. */
#ifndef STACK_FILE_H
#define STACK_FILE_H

#include "CUnwind.h"

#include <stdio.h>

enum { STACK_MODULES = 64, STACK_PIECES = 4096, STACK_FRAMES = 4096, STACK_NAME = 256 };

/* Recorded memory. */
struct piece {
  uint64_t address, length;
  uint8_t *bytes;
};

struct recorded_stack {
  char kind[STACK_NAME];  /* the name of the case, and how the stack was made */
  char after[STACK_NAME]; /* the previous recorded stack of the same work item; empty: none */
  const struct unwind_architecture *architecture;
  struct stack_copy copy;
  uint8_t *bytes; /* the copied stack, then the copy of the thread's own stack */
  int module_count;
  struct unwind_module modules[STACK_MODULES];
  char names[STACK_MODULES][STACK_NAME];
  int frame_count; /* the expected frames, innermost first */
  struct unwind_frame frames[STACK_FRAMES];
  enum unwind_end end;
  int piece_count; /* memory, sorted by address */
  struct piece pieces[STACK_PIECES];
};

/* Names of the reasons for the end of a stack, by enum unwind_end. */
extern const char *const stack_ends[];
enum { STACK_ENDS = 10 };

/* The result of comparing an unwound stack with the expected one. */
enum comparison { COMPARED_EQUAL, COMPARED_CUT, COMPARED_WRONG };
enum comparison stack_compare(const struct recorded_stack *expected, const struct unwind_stack *found);

/* Writes STACK to FILE, except its memory. */
void stack_write(FILE *file, const struct recorded_stack *stack);

/* Writes a line with KEYWORD, ADDRESS and LENGTH BYTES to FILE. */
void stack_write_bytes(FILE *file, const char *keyword, uint64_t address, const uint8_t *bytes, uint64_t length);

/* Reads STACK from the file PATH. Ends the process with a message if the file is malformed. */
void stack_read(const char *path, struct recorded_stack *stack);

/* Copies LENGTH bytes of STACK's memory at ADDRESS to DESTINATION. Returns false if any byte was not recorded. */
bool stack_memory(const struct recorded_stack *stack, uint64_t address, void *destination, size_t length);

bool stack_module(const struct recorded_stack *stack, uint64_t address, struct unwind_module *module);

#endif
