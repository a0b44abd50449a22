/* Threads in states that are hard to sample: about to exit, gone, unable to answer, on another stack. */
#ifndef THREAD_STATES_H
#define THREAD_STATES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a storm of threads, COUNT at a time, each for about a millisecond. Each thread calls BEGIN with CONTEXT and
 * its place, from 0 to COUNT - 1. BEGIN returns the number of the work, which workload_storm_shows finds on the stack.
 * Every second thread then calls END with equal arguments. */
struct workload_storm;
struct workload_storm *workload_storm_start(int count, uint64_t (*begin)(void *context, int place),
                                            void (*end)(void *context, int place), void *context);

/* Ends the storm. */
void workload_storm_stop(struct workload_storm *storm);

/* Finds the sign of the thread of PLACE in STACK, a copy of its stack with BYTES bytes. */
enum workload_storm_sign {
  WORKLOAD_STORM_NOTHING, /* the thread does not work */
  WORKLOAD_STORM_RIGHT,   /* the thread works at PLACE on NUMBER, or has just begun */
  WORKLOAD_STORM_WRONG,   /* the thread works on something else */
};
enum workload_storm_sign workload_storm_shows(const uint8_t *stack, uint64_t bytes, int place, uint64_t number);

/* Runs BEGIN with CONTEXT on a new thread that exits by the bare system call, without the cleanup of the C library.
 * Returns the thread's id, which is free again. */
int workload_leave_abruptly(void (*begin)(void *context), void *context);

/* Starts a thread with the id ID, which must be free, that computes until workload_thread_stop. Needs privileges.
 * Returns NULL on failure. */
struct workload_thread *workload_thread_with_id(int id);

/* Computes until *STOP, in a function that only the thread of workload_thread_with_id runs. */
void workload_compute_as_another(const volatile int *stop);

/* Waits uninterruptibly in vfork(2) until workload_end_child is called, then computes until *STOP. */
void workload_wait_for_child(const volatile int *stop);
void workload_end_child(void);
bool workload_child_has_ended(void);

/* Waits, with SIGPROF blocked, until *STOP. */
void workload_wait_deaf(const volatile int *stop);

/* Ways to keep a process from running. */
enum workload_stop {
  WORKLOAD_STOP_BY_SIGNAL,   /* SIGSTOP and SIGCONT */
  WORKLOAD_STOP_BY_FREEZER,  /* the freezer of control groups, version 1 */
  WORKLOAD_STOP_BY_FREEZER2, /* the freezer of control groups, version 2 */
  WORKLOAD_STOP_ASLEEP,      /* SIGSTOP and SIGCONT, once the main thread is asleep */
};

/* Stops this process in the given WAY after BEFORE_NS, and resumes it DURING_NS later. Returns a pointer to the
 * measured duration in nanoseconds, 0 until the end of the stop; or NULL if this machine does not allow the stop. */
const volatile uint64_t *workload_stop_process(enum workload_stop way, uint64_t before_ns, uint64_t during_ns);

/* Lets a child attach to this process like a debugger, until this process ends. Returns the child's id, or 0 if
 * attaching is not allowed. */
int32_t workload_be_traced(void);

/* Handles signals until *STOP, on an alternate stack if ALTERNATE. The handler computes, or waits if WAITS. */
void workload_stay_in_handler(bool alternate, bool waits, const volatile int *stop);

/* Whether the handler of workload_stay_in_handler runs. */
bool workload_handler_has_begun(void);

/* Raises a signal every few microseconds until *STOP, alternately in workload_raise_first and workload_raise_second.
 * The handler runs on an alternate stack and calls workload_handle_first or workload_handle_second. */
void workload_raise_in_turn(const volatile int *stop);

#ifdef __cplusplus
}
#endif

#endif
