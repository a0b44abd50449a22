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

#endif
