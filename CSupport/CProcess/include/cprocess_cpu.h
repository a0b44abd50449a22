/* Processor time: of the process, and of the whole machine. */
#ifndef CPROCESS_CPU_H
#define CPROCESS_CPU_H

#include "clinux_base.h"

/* What had been used when it was read, in nanoseconds. */
struct cprocess_cpu {
  uint64_t taken_ns;        /* when, CLOCK_MONOTONIC; 0: never */
  uint64_t user_ns;         /* the process, in its own code */
  uint64_t system_ns;       /* the process, in the kernel */
  uint64_t machine_user_ns; /* every process of the machine; 0 when the kernel does not tell */
  uint64_t machine_system_ns;
};

/* Where the machine's times come from. */
struct cprocess_cpu_source {
  uint32_t ticks;      /* its unit: so many a second */
  uint32_t processors; /* those that are on */
};

/* Prepares SOURCE; nothing is kept open. Async-signal-safe: no. Threads: any. */
void cprocess_cpu_open(struct cprocess_cpu_source *source);

/* Reads what has been used by now: getrusage(2), and the first line of /proc/stat (proc(5)).
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void cprocess_cpu_read(const struct cprocess_cpu_source *source, struct cprocess_cpu *cpu);

/* What the process and its main thread had used, and when it was, when the program that it runs was there: just before
 * `main`. The kernel counts all of that from the start of the process, which may have run other programs before
 * (execve(2)), and does not tell when it began this one. In a child of fork(2) it is its parent's. */
struct cprocess_program_start {
  uint64_t at_ns; /* CLOCK_MONOTONIC */
  uint64_t user_ns;
  uint64_t system_ns;
  uint64_t thread_ns;
};

/* That of this program; of a library that was loaded later, when it was loaded.
 * Async-signal-safe: yes. Threads: any. */
struct cprocess_program_start cprocess_cpu_at_program_start(void);

#endif
