/* Threads in states that are hard to sample: about to exit, gone, unable to answer, on another stack. */
#ifndef THREAD_STATES_H
#define THREAD_STATES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A storm of short-lived threads, COUNT at a time, each for about a millisecond. Each calls BEGIN with CONTEXT and its
 * place, from 0 to COUNT - 1, which returns the number of its work, and END with equal arguments; every second one
 * omits END. Its stack has that number for workload_storm_shows. */
struct workload_storm;
struct workload_storm *workload_storm_start(int count, uint64_t (*begin)(void *context, int place),
                                            void (*end)(void *context, int place), void *context);

/* Ends the storm. */
void workload_storm_stop(struct workload_storm *storm);

/* Finds the sign of the thread in PLACE in the copy of its stack, BYTES long. */
enum workload_storm_sign {
  WORKLOAD_STORM_NOTHING, /* it is not in its work */
  WORKLOAD_STORM_RIGHT,   /* it works at PLACE on NUMBER, or has just begun to */
  WORKLOAD_STORM_WRONG,   /* it works on something else */
};
enum workload_storm_sign workload_storm_shows(const uint8_t *stack, uint64_t bytes, int place, uint64_t number);

/* Runs BEGIN with CONTEXT on a new thread that exits by the bare system call, without the cleanup of the C library.
 * Returns the thread's id, which is free again. */
int workload_leave_abruptly(void (*begin)(void *context), void *context);

/* Starts a thread with the id ID, which must be free, that computes until workload_thread_stop. Returns NULL if the id
 * cannot be had: it takes privileges. */
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
  WORKLOAD_STOP_BY_FREEZER2, /* that of version 2 */
  WORKLOAD_STOP_ASLEEP,      /* by signals, once the main thread is asleep */
};

/* Stops this process in the given WAY after BEFORE_NS, and resumes it DURING_NS later. Returns the place of the
 * measured duration in nanoseconds, 0 until it is over; NULL when this machine does not allow it. */
const volatile uint64_t *workload_stop_process(enum workload_stop way, uint64_t before_ns, uint64_t during_ns);

/* Lets a child of this process attach to it like a debugger, until this process ends. Returns the child's id, or 0 when
 * that is not allowed. */
int32_t workload_be_traced(void);

/* Handles signals until *STOP, on an alternate stack if ALTERNATE. The handler computes, or waits if WAITS. */
void workload_stay_in_handler(bool alternate, bool waits, const volatile int *stop);

/* Whether the handler of workload_stay_in_handler runs. */
bool workload_handler_has_begun(void);

/* Takes a signal every few microseconds until *STOP, on an alternate stack, alternately from two functions. The handler
 * calls workload_handle_first or workload_handle_second, after workload_raise_first or workload_raise_second has raised
 * it. */
void workload_raise_in_turn(const volatile int *stop);

#ifdef __cplusplus
}
#endif

#endif
