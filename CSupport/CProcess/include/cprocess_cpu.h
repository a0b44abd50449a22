#ifndef CPROCESS_CPU_H
#define CPROCESS_CPU_H

#include "clinux_base.h"

/* CPU times up to TAKEN_NS, in nanoseconds. */
struct cprocess_cpu {
  uint64_t taken_ns;
  uint64_t user_ns;
  uint64_t system_ns;
  uint64_t machine_user_ns;
  uint64_t machine_system_ns;
};

struct cprocess_cpu_source {
  uint32_t ticks;
  uint32_t cpus;
};

/* Async-signal-safe: no. Threads: any. */
void cprocess_cpu_open(struct cprocess_cpu_source *source);

/* Reads getrusage(2) and the first line of /proc/stat. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void cprocess_cpu_read(const struct cprocess_cpu_source *source, struct cprocess_cpu *cpu);

/* The time at which the program's constructors started, and the CPU times used before. A child of fork(2) has its
 * parent's values. */
struct cprocess_program_start {
  uint64_t at_ns; /* CLOCK_MONOTONIC */
  uint64_t user_ns;
  uint64_t system_ns;
  uint64_t thread_ns;
};

/* Returns the values at the program's start, or at the loading of this library if it was loaded later.
 * Async-signal-safe: yes. Threads: any. */
struct cprocess_program_start cprocess_cpu_at_program_start(void);

#endif
