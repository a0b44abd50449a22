/* What is read of a thread beside its stack, raw: what it means is found out when the report is made.
 *
 * What costs little is read each time. What the kernel has counted is read now and then: counts only grow, and the
 * difference between two readings tells what happened between them, however many looks there were. */
#ifndef OBSERVER_EVIDENCE_H
#define OBSERVER_EVIDENCE_H

#include "observer_base.h"
#include "observer_passive.h"

enum {
  OBSERVER_WORDS_MAX = 8,
  OBSERVER_KERNEL_FUNCTION_BYTES = 40,
  OBSERVER_COUNTED_THREADS_MAX = 64, /* of which it is remembered when their counters were read */
  OBSERVER_GROUPS_MAX = 4,           /* control groups that contain each other */
};

/* What the kernel has counted for a thread since it began (proc(5): status, stat, io). */
struct observer_thread_counters {
  uint64_t voluntary_switches, involuntary_switches;
  uint64_t minor_faults, major_faults;
  uint64_t user_ticks, system_ticks; /* of 10 ms */
  uint64_t read_bytes, written_bytes;
  uint64_t disk_read_bytes, disk_written_bytes;
};

/* The same for the process's control group, or the machine. UINT64_MAX, or 0 of threads and processors: unknown. */
struct observer_surroundings {
  uint64_t throttled_ns;      /* kept from running, because a quota was used up: cpu.stat */
  uint64_t memory_stalled_ns; /* PSI: some of its threads waited for memory */
  uint64_t disk_stalled_ns;   /* and for a disk */
  uint32_t runnable;          /* threads of the machine that wanted a processor then */
  uint32_t processors;
};

struct observer_evidence {
  uint64_t turns;        /* how often the thread had got a processor; 0: unknown */
  bool has_arguments;    /* whether the thread was in a system call */
  uint64_t arguments[6]; /* that call's */
  uint32_t word_count;   /* words from the one on that a change of is waited for (futex(2)) */
  uint32_t words[OBSERVER_WORDS_MAX];
  uint32_t kernel_function_bytes; /* 0: unknown, or says no more than the call */
  char kernel_function[OBSERVER_KERNEL_FUNCTION_BYTES];
  bool has_counters;
  bool has_surroundings;
  struct observer_thread_counters counters;
  struct observer_surroundings surroundings;
};

/* When what was counted last, for each slot and thread; one for each thread that reads evidence. */
struct observer_evidence_times {
  int32_t tids[OBSERVER_COUNTED_THREADS_MAX];
  uint32_t slots[OBSERVER_COUNTED_THREADS_MAX];
  uint64_t next_ns[OBSERVER_COUNTED_THREADS_MAX];
  uint64_t next_surroundings_ns;
  struct observer_surroundings surroundings; /* as they were then */
};

/* Where the control group of the process, and those that contain it, count throttling ("…/cpu.stat"), GROUPS of them,
 * and where waiting for memory and disks is counted ("…/memory.pressure", "…/io.pressure"); longer paths are not used.
 * Until then nothing is read there. Async-signal-safe: no. Threads: the recorder, once. */
void observer_evidence_know(const char *const *cpu_stats, uint32_t groups, const char *memory_pressure,
                            const char *io_pressure, uint32_t processors);

/* Reads what there is of thread TID, which SEEN was seen of, a moment after its stack, for the target slot SLOT.
 * Async-signal-safe: yes. Threads: a sampler, which the kernel may hold up. */
CLINUX_NO_LOCKS void observer_evidence_read(int32_t tid, uint32_t slot, const struct observer_thread_status *seen,
                                            struct observer_evidence_times *times, struct observer_evidence *evidence);

/* The number behind KEY in TEXT of LENGTH bytes, a list of lines or words such as "read_bytes: 4096"; UINT64_MAX if
 * there is none. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS uint64_t observer_evidence_number(const char *text, size_t length, const char *key);

#endif
