/* Processor time: of the process, and of the whole machine. */
#ifndef OBSERVER_CPU_H
#define OBSERVER_CPU_H

#include "observer_base.h"

/* What had been used when it was read, in nanoseconds. */
struct observer_cpu {
  uint64_t taken_ns;        /* when, CLOCK_MONOTONIC; 0: never */
  uint64_t user_ns;         /* the process, in its own code */
  uint64_t system_ns;       /* the process, in the kernel */
  uint64_t machine_user_ns; /* every process of the machine; 0 when the kernel does not tell */
  uint64_t machine_system_ns;
};

/* Where the machine's times come from. */
struct observer_cpu_source {
  uint32_t ticks;      /* its unit: so many a second */
  uint32_t processors; /* those that are on */
};

/* Prepares SOURCE; nothing is kept open. Async-signal-safe: no. Threads: any. */
void observer_cpu_open(struct observer_cpu_source *source);

/* Reads what has been used by now: getrusage(2), and the first line of /proc/stat (proc(5)).
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS void observer_cpu_read(const struct observer_cpu_source *source, struct observer_cpu *cpu);

#endif
