/* Recorded stacks as files: Tests/Fixtures/README.md describes them. */
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
  char kind[STACK_NAME];  /* what is special about it, and how it was made */
  char after[STACK_NAME]; /* the recorded stack of the same work that was taken before; empty: none */
  const struct unwind_architecture *architecture;
  struct stack_copy copy;
  uint8_t *bytes; /* the copied stacks, one behind the other */
  int module_count;
  struct unwind_module modules[STACK_MODULES];
  char names[STACK_MODULES][STACK_NAME];
  int frame_count; /* what is expected, innermost first */
  struct unwind_frame frames[STACK_FRAMES];
  enum unwind_end end;
  int piece_count; /* memory, sorted */
  struct piece pieces[STACK_PIECES];
};

/* Names of the reasons for the end of a stack, by enum unwind_end. */
extern const char *const stack_ends[];
enum { STACK_ENDS = 10 };

/* The result of comparing an unwound stack with the expected one. */
enum comparison { COMPARED_EQUAL, COMPARED_CUT, COMPARED_WRONG };
enum comparison stack_compare(const struct recorded_stack *expected, const struct unwind_stack *found);

/* Writes STACK to FILE, except its end. */
void stack_write(FILE *file, const struct recorded_stack *stack);

/* Writes a line KEYWORD ADDRESS with LENGTH BYTES to FILE. */
void stack_write_bytes(FILE *file, const char *keyword, uint64_t address, const uint8_t *bytes, uint64_t length);

/* Reads a file that stack_write wrote to PATH. Ends the process with a message if the file is malformed. */
void stack_read(const char *path, struct recorded_stack *stack);

/* Copies LENGTH bytes of STACK's memory at ADDRESS to DESTINATION. Returns false when not all of it was recorded. */
bool stack_memory(const struct recorded_stack *stack, uint64_t address, void *destination, size_t length);

bool stack_module(const struct recorded_stack *stack, uint64_t address, struct unwind_module *module);

#endif
