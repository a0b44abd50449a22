/* Threads that wait for a CPU, and threads that sleep. */
#ifndef PROCESSORS_H
#define PROCESSORS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Binds the calling thread to its current CPU, and starts COUNT threads that compute there. */
struct workload_crowd;
struct workload_crowd *workload_crowd_start(int count);

/* Ends the computing threads. The caller stays bound. */
void workload_crowd_stop(struct workload_crowd *crowd);

/* Wait for NS in one call that the kernel restarts after the process was stopped: nanosleep(2), poll(2). */
void workload_sleep(uint64_t ns);
void workload_poll(uint64_t ns);

#ifdef __cplusplus
}
#endif

#endif
