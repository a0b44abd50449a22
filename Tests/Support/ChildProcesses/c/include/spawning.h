/* Starts programs with extensions of the C library that Swift does not import. */
#ifndef SPAWNING_H
#define SPAWNING_H

#include <stdbool.h>
#include <sys/types.h>

/* Options for starting a program. */
struct spawning {
  const char *program;      /* the path of the executable */
  char *const *words;       /* the arguments, with NULL at the end */
  char *const *environment; /* the variables, with NULL at the end; NULL inherits */
  const char *directory;    /* the working directory; NULL inherits */
  int input;                /* standard input; -1: /dev/null */
  int output;               /* standard output; -1 inherits */
  int errors;               /* standard error; -1 inherits */
  bool is_alone;            /* whether the program gets a separate process group */
};

/* Starts a program without blocked or ignored signals, and without descriptors except its standard streams. Returns 0,
 * or an errno value. Threads: any. */
int spawning_start(const struct spawning *how, pid_t *process);

/* Creates a pipe that no program inherits. Returns 0, or an errno value. Threads: any. */
int spawning_pipe(int ends[2]);

/* Creates a file without a name that no program inherits. Returns its descriptor, or -1. Threads: any. */
int spawning_file(void);

#endif
