/* Raw data about a sampled thread in addition to its stack. Kernel counters only grow, so they need not be read with
 * every sample. */
#ifndef OBSERVER_EVIDENCE_H
#define OBSERVER_EVIDENCE_H

#include "base/observer_base.h"
#include "evidence/observer_passive.h"

enum {
  OBSERVER_WORDS_MAX = 8,
  OBSERVER_KERNEL_FUNCTION_BYTES = 40,
  OBSERVER_COUNTED_THREADS_MAX = 64,
  OBSERVER_GROUPS_MAX = 4, /* nested control groups */
};

/* The kernel's counters of a thread (proc(5): status, stat, io). */
struct observer_thread_counters {
  uint64_t voluntary_switches, involuntary_switches;
  uint64_t minor_faults, major_faults;
  uint64_t user_ticks, system_ticks; /* of 10 ms */
  uint64_t read_bytes, written_bytes;
  uint64_t disk_read_bytes, disk_written_bytes;
};

/* Counters of the process's control group, or of the machine. An unknown counter is UINT64_MAX; an unknown number of
 * threads or CPUs is 0. */
struct observer_surroundings {
  uint64_t throttled_ns;      /* quota used up: cpu.stat */
  uint64_t memory_stalled_ns; /* PSI: waits for memory */
  uint64_t disk_stalled_ns;   /* PSI: waits for a disk */
  uint64_t refaulted_bytes;   /* files read again after reclaim: memory.stat */
  uint64_t limit_hits;        /* memory.events, memory.failcnt */
  uint32_t runnable;          /* including running threads */
  uint32_t cpus;
};

struct observer_evidence {
  uint64_t turns; /* number of times on a CPU; 0: unknown */
  bool has_arguments;
  uint64_t arguments[6];
  uint32_t word_count; /* number of words read, from the awaited word on (futex(2)) */
  uint32_t words[OBSERVER_WORDS_MAX];
  uint32_t kernel_function_bytes; /* 0: unknown, or implied by the call */
  char kernel_function[OBSERVER_KERNEL_FUNCTION_BYTES];
  bool has_counters;
  bool has_surroundings;
  struct observer_thread_counters counters;
  struct observer_surroundings surroundings;
};

/* Times of the next readings, for each slot and thread. */
struct observer_evidence_times {
  int32_t tids[OBSERVER_COUNTED_THREADS_MAX];
  uint32_t slots[OBSERVER_COUNTED_THREADS_MAX];
  uint64_t next_ns[OBSERVER_COUNTED_THREADS_MAX];
  uint64_t next_surroundings_ns;
  struct observer_surroundings surroundings;
};

/* Sets the files with the counters of the process's control group: GROUPS cpu.stat files (of the group and its
 * ancestors), memory.pressure, io.pressure, memory.stat, and memory.events (version 1: memory.failcnt).
 * Async-signal-safe: no. Threads: the recorder, once. */
void observer_evidence_know(const char *const *cpu_stats, uint32_t groups, const char *memory_pressure,
                            const char *io_pressure, const char *memory_stat, const char *memory_limit, uint32_t cpus);

/* Reads the evidence of thread TID, whose status is SEEN, for SLOT. Must be called right after the stack is copied.
 * Async-signal-safe: yes. Threads: a sampler, which the kernel is allowed to block. */
CLINUX_NO_LOCKS void observer_evidence_read(int32_t tid, uint32_t slot, const struct observer_thread_status *seen,
                                            struct observer_evidence_times *times, struct observer_evidence *evidence);

/* Returns the number after KEY in TEXT, such as "read_bytes: 4096"; UINT64_MAX if there is none. Async-signal-safe:
 * yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t observer_evidence_number(const char *text, size_t length, const char *key);

#endif
