#ifndef CLINUX_TASK_H
#define CLINUX_TASK_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

#include <pthread.h>

#define CLINUX_TASKS_MAX 4194304

/* Maximum number of threads in a list. */
#define CLINUX_TASK_LIST_MAX 262144

/* Reserves memory for the IDs of CLINUX_TASK_LIST_MAX threads; only the used part becomes resident. Returns 0 or an
 * errno value. Async-signal-safe: no. Threads: any, one at a time, while no thread lists. */
int clinux_task_start(void);

/* Lists the threads of this process from /proc/self/task. Returns their number and sets *TIDS to their IDs, valid until
 * the next call, or returns a negative errno value. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS int64_t clinux_task_list(const int32_t **tids);

/* Maximum length of a file name for clinux_task_open_file, including the terminator. */
#define CLINUX_TASK_FILE_BYTES 12

/* Opens the file NAME ("/stat") of /proc/self/task/TID (proc(5)) for short use. Returns a descriptor for
 * clinux_descriptor_close; its number is a negative errno value if the kernel refuses. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_task_open_file(int32_t tid, const char *name);

/* Opens the file that reports the current system call of thread TID of this process, as clinux_task_open_file does.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_task_open_syscall(int32_t tid);

/* Reads the status of thread TID (/proc/self/task/TID/status, proc(5)) into TEXT, which has room for SIZE bytes, for
 * example 4,096. Returns the number of bytes, or 0 if the status is not available. Async-signal-safe: yes. Threads:
 * any. */
CLINUX_NO_LOCKS size_t clinux_task_read_status(int32_t tid, char *text, size_t size);

/* Opens the file that reports the calling thread's run delay. Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_task_open_schedule(void);

/* Closes SCHEDULE, which clinux_task_open_schedule returned. Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS void clinux_task_close_schedule(struct clinux_descriptor schedule);

/* Returns the time in nanoseconds that the calling thread, which opened SCHEDULE, has waited for a CPU while runnable
 * (the second number of /proc/self/task/TID/schedstat, Documentation/scheduler/sched-stats.rst). Async-signal-safe:
 * yes. Threads: the monitor. */
CLINUX_NO_LOCKS uint64_t clinux_task_starved_ns(struct clinux_descriptor schedule);

/* Returns the time in nanoseconds that thread TID of this process has waited for a CPU while runnable, from its
 * schedstat file; UINT64_MAX if the kernel does not report it. Sets *TURNS to the number of times it got one, or 0 if
 * the kernel does not report it. Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS uint64_t clinux_task_run_delay_ns(int32_t tid, uint64_t *turns);

/* Whether thread TID is neither running nor runnable: its state in /proc/self/task/TID/stat (proc(5)) is not R. False
 * if the state is not available. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_task_is_asleep(int32_t tid);

/* Returns the calling thread's ID. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS int32_t clinux_task_self(void);

/* Waits until THREAD has ended and joins it. Gives up at DEADLINE_NS on the clock of clinux_clock_ns; UINT64_MAX waits
 * without a limit. Returns whether it has joined; if not, the thread must be joined or detached later.
 * Async-signal-safe: no. Threads: any. */
bool clinux_task_join(pthread_t thread, uint64_t deadline_ns);

/* Names the calling thread; at most 15 bytes are kept (pthread_setname_np(3)).
 * Async-signal-safe: no. Threads: any, for itself. */
void clinux_task_set_name(const char *name);

#endif
