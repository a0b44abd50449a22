#ifndef CPROCESS_CPU_H
#define CPROCESS_CPU_H

#include "clinux_base.h"

/* CPU time used up to a point in time, in nanoseconds. */
struct cprocess_cpu {
  uint64_t taken_ns;
  uint64_t user_ns;   /* the process, in user mode */
  uint64_t system_ns; /* the process, in kernel mode */
  uint64_t machine_user_ns;
  uint64_t machine_system_ns;
};

struct cprocess_cpu_source {
  uint32_t ticks;
  uint32_t cpus; /* number of online CPUs */
};

/* Initializes SOURCE. No descriptor stays open. Async-signal-safe: no. Threads: any. */
void cprocess_cpu_open(struct cprocess_cpu_source *source);

/* Reads the CPU times used so far: getrusage(2), and the first line of /proc/stat (proc(5)). Async-signal-safe: yes.
 * Threads: any. */
CLINUX_NO_LOCKS void cprocess_cpu_read(const struct cprocess_cpu_source *source, struct cprocess_cpu *cpu);

/* The start of the program, just before `main`: the time, and the CPU time used by the process and its main thread
 * until then. A child of fork(2) has its parent's values. */
struct cprocess_program_start {
  uint64_t at_ns; /* CLOCK_MONOTONIC */
  uint64_t user_ns;
  uint64_t system_ns;
  uint64_t thread_ns;
};

/* Returns the start of this program; for a library loaded later, the time of loading. Async-signal-safe: yes. Threads:
 * any. */
struct cprocess_program_start cprocess_cpu_at_program_start(void);

#endif
