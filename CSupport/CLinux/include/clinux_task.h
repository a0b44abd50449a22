/* All threads of the process, as /proc/self/task tells of them. */
#ifndef CLINUX_TASK_H
#define CLINUX_TASK_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

#include <pthread.h>

/* As many threads as the kernel can have (PID_MAX_LIMIT of include/linux/threads.h). */
#define CLINUX_TASKS_MAX 4194304

/* Makes room for the ids of CLINUX_TASKS_MAX threads, resident only as far as it is used. Returns 0 or an errno
 * value. Async-signal-safe: no. Threads: any, one at a time, while nothing is listed. */
int clinux_task_start(void);

/* Lists the threads of this process from /proc/self/task. Returns how many there are, with their ids in *TIDS until the
 * next call, or the negative of an errno value. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS int64_t clinux_task_list(const int32_t **tids);

/* The longest name of a file that is opened by clinux_task_open_file, with its end. */
#define CLINUX_TASK_FILE_BYTES 12

/* Opens the file called NAME ("/stat") of /proc/self/task/TID (proc(5)), for a moment. Returns a descriptor, to be
 * given to clinux_descriptor_close, whose number is the negative of an errno value where the kernel refuses.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_task_open_file(int32_t tid, const char *name);

/* The same of the file in which the kernel tells which system call thread TID of this process is in.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_task_open_syscall(int32_t tid);

/* Reads the file that tells of thread TID line by line (/proc/self/task/TID/status, proc(5)) into TEXT, which has room
 * for SIZE bytes, 4,096 say. Of a longer one the middle is left out, where the groups of its user are, of which there
 * can be 65,536. Returns how many bytes there are; 0 when the kernel does not tell.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS size_t clinux_task_read_status(int32_t tid, char *text, size_t size);

/* Opens the file in which the kernel tells how long the calling thread has waited for a processor.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_task_open_schedule(void);

/* Closes what clinux_task_open_schedule returned. Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS void clinux_task_close_schedule(struct clinux_descriptor schedule);

/* The time, in nanoseconds, that the calling thread, which opened SCHEDULE, has waited for a processor although it
 * could have run (the second number of /proc/self/task/TID/schedstat, Documentation/scheduler/sched-stats.rst). Does
 * not grow while the thread is stopped, frozen or asleep. 0 when the kernel does not tell. Async-signal-safe: yes.
 * Threads: the monitor. */
CLINUX_NO_LOCKS uint64_t clinux_task_starved_ns(struct clinux_descriptor schedule);

/* The time, in nanoseconds, that thread TID of this process could have run and had no processor so far, from the same
 * file. What it waits at the moment counts from when it gets one. UINT64_MAX when the kernel does not tell. TURNS gets
 * how often it had got one, 0 when the kernel does not tell.
 * Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS uint64_t clinux_task_run_delay_ns(int32_t tid, uint64_t *turns);

/* Whether thread TID neither runs nor waits for a processor: its state in /proc/self/task/TID/stat (proc(5)) is not R.
 * False when the kernel does not tell. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_task_is_asleep(int32_t tid);

/* The calling thread's id. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS int32_t clinux_task_self(void);

/* Waits until THREAD has ended, and lets it go; until DEADLINE_NS on the clock of clinux_clock_ns at most, or for ever
 * (UINT64_MAX). Returns whether it has: else somebody else has to let it go. Async-signal-safe: no. Threads: any. */
bool clinux_task_join(pthread_t thread, uint64_t deadline_ns);

/* Names the calling thread; at most 15 bytes are kept (pthread_setname_np(3)).
 * Async-signal-safe: no. Threads: any, for itself. */
void clinux_task_set_name(const char *name);

#endif
