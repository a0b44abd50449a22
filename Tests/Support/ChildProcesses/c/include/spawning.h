/* Starts programs with extensions of the C library that Swift does not import. */
#ifndef SPAWNING_H
#define SPAWNING_H

#include <stdbool.h>
#include <sys/types.h>

/* Options for starting a program. */
struct spawning {
  const char *program;      /* its file */
  char *const *words;       /* its arguments, NULL behind the last */
  char *const *environment; /* likewise; NULL: that of this process */
  const char *directory;    /* where it starts; NULL: where this process is */
  int input;                /* its standard input; -1: nothing to be read */
  int output;               /* its standard output; -1: that of this process */
  int errors;               /* its standard error; likewise */
  bool is_alone;            /* whether it is in a process group of its own */
};

/* Starts a program, with no signal blocked or ignored and no descriptors but its standard streams. Returns 0, or an
 * errno value. Threads: any. */
int spawning_start(const struct spawning *how, pid_t *process);

/* Creates a pipe that no program inherits. Returns 0, or an errno value. Threads: any. */
int spawning_pipe(int ends[2]);

/* Creates a file without a name that no program inherits. Returns its descriptor, or -1. Threads: any. */
int spawning_file(void);

#endif
