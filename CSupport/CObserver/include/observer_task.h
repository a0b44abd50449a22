/* All threads of the process, registered or not: for capturing each of them once. */
#ifndef OBSERVER_TASK_H
#define OBSERVER_TASK_H

#include "observer_base.h"
#include "observer_descriptor.h"
#include "observer_thread.h"

/* As many threads as the kernel can have (PID_MAX_LIMIT of include/linux/threads.h). */
#define OBSERVER_TASKS_MAX 4194304

/* Threads that can be visited at the same time. */
#define OBSERVER_VISITS_MAX 96

/* Makes room for the ids of OBSERVER_TASKS_MAX threads, resident only as far as it is used. Returns 0 or an errno
 * value. Async-signal-safe: no. Threads: any, one at a time, while nothing is listed. */
int observer_task_start(void);

/* Lists the threads of this process from /proc/self/task. Returns how many there are, with their ids in *TIDS until the
 * next call, or the negative of an errno value. Async-signal-safe: yes. Threads: a sampler, in its own context. */
OBSERVER_NO_LOCKS int64_t observer_task_list(const int32_t **tids);

/* An entry of thread TID, registered or not, that was made for the visit, or NULL when OBSERVER_VISITS_MAX visits are
 * under way. To be given to observer_task_leave. Async-signal-safe: yes. Threads: those of the watchdog that look at
 * threads. */
OBSERVER_NO_LOCKS struct observer_thread *observer_task_visit(int32_t tid);

/* Ends a visit; does nothing with an entry that is no visit's. Async-signal-safe: yes. Threads: who visited. */
OBSERVER_NO_LOCKS void observer_task_leave(struct observer_thread *thread);

/* Opens the file in which the kernel tells how long the calling thread has waited for a processor.
 * Async-signal-safe: yes. Threads: the monitor. */
OBSERVER_NO_LOCKS struct observer_descriptor observer_task_open_schedule(void);

/* Closes what observer_task_open_schedule returned. Async-signal-safe: yes. Threads: the monitor. */
OBSERVER_NO_LOCKS void observer_task_close_schedule(struct observer_descriptor schedule);

/* The time, in nanoseconds, that the calling thread, which opened SCHEDULE, has waited for a processor although it
 * could have run (the second number of /proc/self/task/TID/schedstat, Documentation/scheduler/sched-stats.rst). Does
 * not grow while the thread is stopped, frozen or asleep. 0 when the kernel does not tell. Async-signal-safe: yes.
 * Threads: the monitor. */
OBSERVER_NO_LOCKS uint64_t observer_task_starved_ns(struct observer_descriptor schedule);

/* The time, in nanoseconds, that thread TID of this process could have run and had no processor so far, from the same
 * file. What it waits at the moment counts from when it gets one. UINT64_MAX when the kernel does not tell.
 * Async-signal-safe: yes. Threads: a sampler. */
OBSERVER_NO_LOCKS uint64_t observer_task_run_delay_ns(int32_t tid);

/* Whether thread TID neither runs nor waits for a processor: its state in /proc/self/task/TID/stat (proc(5)) is not R.
 * False when the kernel does not tell. Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS bool observer_task_is_asleep(int32_t tid);

/* The calling thread's id. Async-signal-safe: yes. Threads: any. */
OBSERVER_NO_LOCKS int32_t observer_task_self(void);

#endif
