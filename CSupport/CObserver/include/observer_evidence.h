/* Raw data about a sampled thread in addition to its stack. It is interpreted when the report is made.
 *
 * Cheap data is read with each sample. Kernel counters are read at intervals: they only grow, so the difference between
 * two readings covers all samples in between. */
#ifndef OBSERVER_EVIDENCE_H
#define OBSERVER_EVIDENCE_H

#include "observer_base.h"
#include "observer_passive.h"

enum {
  OBSERVER_WORDS_MAX = 8,
  OBSERVER_KERNEL_FUNCTION_BYTES = 40,
  OBSERVER_COUNTED_THREADS_MAX = 64, /* number of threads with a recorded time of the last reading */
  OBSERVER_GROUPS_MAX = 4,           /* nested control groups */
};

/* The kernel's counters of a thread since its start (proc(5): status, stat, io). */
struct observer_thread_counters {
  uint64_t voluntary_switches, involuntary_switches;
  uint64_t minor_faults, major_faults;
  uint64_t user_ticks, system_ticks; /* of 10 ms */
  uint64_t read_bytes, written_bytes;
  uint64_t disk_read_bytes, disk_written_bytes;
};

/* Counters of the process's control group, or of the machine. UINT64_MAX, or 0 for threads and CPUs: unknown. */
struct observer_surroundings {
  uint64_t throttled_ns;      /* throttled because the quota was used up: cpu.stat */
  uint64_t memory_stalled_ns; /* PSI: time in which some of its threads waited for memory */
  uint64_t disk_stalled_ns;   /* PSI: time in which some of its threads waited for a disk */
  uint64_t refaulted_bytes;   /* content of files that was read again after it had been reclaimed: memory.stat */
  uint64_t limit_hits;        /* number of allocations that met the memory limit: memory.events, memory.failcnt */
  uint32_t runnable;          /* running and runnable threads of the machine */
  uint32_t cpus;
};

struct observer_evidence {
  uint64_t turns;        /* how often the thread had got a CPU; 0: unknown */
  bool has_arguments;    /* whether the thread was in a system call */
  uint64_t arguments[6]; /* arguments of the system call */
  uint32_t word_count;   /* number of words from the one whose change is awaited (futex(2)) */
  uint32_t words[OBSERVER_WORDS_MAX];
  uint32_t kernel_function_bytes; /* 0: unknown, or implied by the call */
  char kernel_function[OBSERVER_KERNEL_FUNCTION_BYTES];
  bool has_counters;
  bool has_surroundings;
  struct observer_thread_counters counters;
  struct observer_surroundings surroundings;
};

/* Times of the next readings, for each slot and thread; one for each thread that reads evidence. */
struct observer_evidence_times {
  int32_t tids[OBSERVER_COUNTED_THREADS_MAX];
  uint32_t slots[OBSERVER_COUNTED_THREADS_MAX];
  uint64_t next_ns[OBSERVER_COUNTED_THREADS_MAX];
  uint64_t next_surroundings_ns;
  struct observer_surroundings surroundings; /* the last reading */
};

/* Sets the files in which the kernel counts for the control group of the process: throttling of the group and of the
 * groups that contain it ("…/cpu.stat", GROUPS of them), waits for memory and disks ("…/memory.pressure",
 * "…/io.pressure"), pages that were read again ("…/memory.stat"), and hits of the memory limit ("…/memory.events", in
 * version 1 "…/memory.failcnt"). Longer paths are not used. Nothing is read there before this call. Async-signal-safe:
 * no. Threads: the recorder, once. */
void observer_evidence_know(const char *const *cpu_stats, uint32_t groups, const char *memory_pressure,
                            const char *io_pressure, const char *memory_stat, const char *memory_limit, uint32_t cpus);

/* Reads the evidence of thread TID with the status SEEN, right after its stack, for the target slot SLOT.
 * Async-signal-safe: yes. Threads: a sampler, which the kernel is allowed to block. */
CLINUX_NO_LOCKS void observer_evidence_read(int32_t tid, uint32_t slot, const struct observer_thread_status *seen,
                                            struct observer_evidence_times *times, struct observer_evidence *evidence);

/* Returns the number after KEY in TEXT of LENGTH bytes, a list of lines or words such as "read_bytes: 4096"; UINT64_MAX
 * if there is none. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t observer_evidence_number(const char *text, size_t length, const char *key);

#endif
