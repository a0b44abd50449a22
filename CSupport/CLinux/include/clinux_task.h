#ifndef CLINUX_TASK_H
#define CLINUX_TASK_H

#include "clinux_base.h"
#include "clinux_descriptor.h"

#include <pthread.h>

#define CLINUX_TASKS_MAX 4194304

#define CLINUX_TASK_LIST_MAX 262144

/* Reserves memory for the calling context's list of threads. Returns 0 or an errno value. Async-signal-safe: no.
 * Threads: any, one at a time, while no thread lists. */
int clinux_task_start(void);

/* Lists the threads of this process. Returns their number and sets *TIDS to their IDs, valid until the next call, or
 * returns a negative errno value. Async-signal-safe: yes. Threads: a sampler, in its own context. */
CLINUX_NO_LOCKS int64_t clinux_task_list(const int32_t **tids);

/* Maximum length of clinux_task_open_file's NAME, terminator included. */
#define CLINUX_TASK_FILE_BYTES 12

/* Opens the file NAME, such as "/stat", of /proc/self/task/TID. Returns a descriptor for clinux_descriptor_close; its
 * number is a negative errno value if the kernel refuses. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_task_open_file(int32_t tid, const char *name);

/* Reads the "/status" file of thread TID into TEXT, of SIZE bytes. If the file is longer than SIZE, omits its middle.
 * Returns the number of bytes, or 0 if the file is not available. Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS size_t clinux_task_read_status(int32_t tid, char *text, size_t size);

/* Opens the calling thread's schedstat file, for clinux_descriptor_close. Async-signal-safe: yes. Threads: the
 * monitor. */
CLINUX_NO_LOCKS struct clinux_descriptor clinux_task_open_schedule(void);

/* Returns the nanoseconds that the calling thread, which opened SCHEDULE, has waited for a CPU while runnable
 * (Documentation/scheduler/sched-stats.rst); 0 if unknown. Opens SCHEDULE again if the service has closed it.
 * Async-signal-safe: yes. Threads: the monitor. */
CLINUX_NO_LOCKS uint64_t clinux_task_starved_ns(struct clinux_descriptor *schedule);

/* Returns the nanoseconds that thread TID has waited for a CPU while runnable; UINT64_MAX if unknown. Sets *TURNS to
 * the number of times the thread got a CPU; 0 if unknown. Async-signal-safe: yes. Threads: a sampler. */
CLINUX_NO_LOCKS uint64_t clinux_task_run_delay_ns(int32_t tid, uint64_t *turns);

/* Whether thread TID is neither running nor runnable: its state (proc(5)) is not R. False if unknown.
 * Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS bool clinux_task_is_asleep(int32_t tid);

/* Async-signal-safe: yes. Threads: any. */
CLINUX_NO_LOCKS int32_t clinux_task_self(void);

/* Joins THREAD, waiting until DEADLINE_NS (clinux_clock_ns); UINT64_MAX: without a limit. Returns false if THREAD still
 * runs and must be joined or detached later. Async-signal-safe: no. Threads: any. */
bool clinux_task_join(pthread_t thread, uint64_t deadline_ns);

/* Names the calling thread; at most 15 bytes are kept. Async-signal-safe: no. Threads: any, for itself. */
void clinux_task_set_name(const char *name);

#endif
