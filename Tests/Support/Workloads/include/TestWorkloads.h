/* Functions that tests recognise in stacks: they stay on the stack for a known time, and have known addresses because
 * they are compiled in C. None of them is inlined or folded into another. */
#ifndef TEST_WORKLOADS_H
#define TEST_WORKLOADS_H

#include "frames.h"
#include "locks_held.h"
#include "marked_stack.h"
#include "processors.h"
#include "thread_states.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes until CLOCK_MONOTONIC reaches DEADLINE_NS or *STOP becomes nonzero (STOP may be NULL). */
void workload_spin(uint64_t deadline_ns, const volatile int *stop);

/* Calls itself DEPTH times, each with a frame of at least 512 bytes, then spins. */
void workload_recurse(int depth, uint64_t deadline_ns, const volatile int *stop);

/* Spins on a separate stack of BYTES bytes, as a coroutine does (makecontext(3)), then returns. */
void workload_spin_on_coroutine(uint64_t bytes, uint64_t deadline_ns, const volatile int *stop);

/* Spends most of the time in the epilogue of a leaf function, where saved registers are below the stack pointer. */
void workload_epilogues(uint64_t deadline_ns, const volatile int *stop);

/* The number of calls of workload_on_signal, a handler for SIGPROF. */
int workload_signals(void);
void workload_on_signal(int signal);

/* Whether the action for SIGPROF differs from the default. */
bool workload_has_handler(void);

/* Installs workload_on_signal for SIGPROF. workload_raise sends SIGPROF to the calling thread. */
void workload_install_handler(void);
void workload_raise(void);

/* Runs BODY with CONTEXT on a new thread and waits for its end. */
void workload_on_thread(void (*body)(void *), void *context);

/* Runs BODY with CONTEXT on a new thread that exits by the bare system call, so no cleanup of the C library runs. Waits
 * for its end. */
void workload_on_bare_thread(void (*body)(void *), void *context);

/* Returns nanoseconds of CLOCK_MONOTONIC. */
uint64_t workload_now_ns(void);

/* Runs BODY with CONTEXT on a new thread. BODY must return when *stop is not 0. */
struct workload_thread;
struct workload_thread *workload_thread_start(void (*body)(void *context, const volatile int *stop), void *context);
void workload_thread_stop(struct workload_thread *thread);

/* Blocks in the system call that KIND names until workload_unblock. An interrupted call restarts or is repeated;
 * workload_interrupted returns the number of interruptions. Not inlined, so stacks show this function. */
enum workload_block {
  WORKLOAD_READ,
  WORKLOAD_SEMAPHORE,
  WORKLOAD_MUTEX,
  WORKLOAD_CONDITION,
  WORKLOAD_NANOSLEEP,
  WORKLOAD_POLL,
  WORKLOAD_EPOLL,
  WORKLOAD_SELECT,
  WORKLOAD_TIMED_SEMAPHORE,
  WORKLOAD_BLOCKS,
};
void workload_block(enum workload_block kind);
void workload_prepare_block(void);
void workload_unblock(void);
int workload_interrupted(void);

/* Runs in a function without unwind information whose frame pointer register has another use. */
void workload_without_unwind_information(uint64_t deadline_ns, const volatile int *stop);

/* The system call number of vfork(2), or of an equivalent call, on this architecture: Swift does not import the
 * number. */
extern const int64_t workload_call_vfork;

/* Fills FILE with the path of the library that defines the symbol NAME in this process; empty if there is none. */
void workload_file_of_symbol(const char *name, char *file, uint64_t length);

/* fork(2) and daemon(3), which Swift does not import. */
int workload_plain_fork(void);
int workload_become_daemon(void);

/* Makes the system call NAME fail with EPERM from now on, as in a sandbox (seccomp(2)). Returns whether it could. */
bool workload_refuse_call(const char *name);

/* Limits the process to BYTES more memory than it uses (RLIMIT_DATA). Returns false when that is not possible. */
bool workload_leave_memory(size_t bytes);

/* Limits the process to BYTES more address space than it uses (RLIMIT_AS). Returns false when that is not possible. */
bool workload_leave_address_space(size_t bytes);

/* Makes the kernel end the process at any system call outside systemd's SystemCallFilter=@system-service. Returns
 * whether it could. */
bool workload_be_killed_for_calls(void);

/* Gives the calling thread a private copy of the process's descriptor table (unshare(2)). Returns whether it has
 * one. */
bool workload_take_own_descriptors(void);

/* Makes this process undumpable (prctl(2)), and drops root's privileges. Returns whether it could. */
bool workload_become_undumpable(void);

/* Hides /proc from this process, which must have one thread. Needs privileges. Returns whether it could. */
bool workload_hide_proc(void);

/* Starts a profiler: an interval timer that sends SIGPROF, and a handler. workload_profiled returns the number of its
 * calls by the timer. */
void workload_start_profiler(void);
int workload_profiled(void);

/* Starts a child that sleeps for 5 s without exec, with all descriptors except the standard streams. Returns 0. */
int workload_fork_and_leave(void);

/* Starts the program PATH with ARGUMENTS, which end with NULL, in a child process: by posix_spawn(3) if WAY is "spawn",
 * otherwise by execv(3) after vfork(2), if WAY is "vfork", or fork(2). Returns its process id, or -1 on failure. */
int workload_start(const char *way, const char *path, char *const arguments[]);

/* Runs BODY on a new thread and returns its result. In the Swift runtime (6.3), the first thread of a forked child
 * keeps its parent's thread number. It can hang in a lazy initialization that another thread runs. */
int workload_call_on_thread(int (*body)(void));

/* Runs CHILD in a child process. Returns its exit status, or -1 if it did not exit. */
int workload_fork(int (*child)(void));

/* Makes the thread die as WAY specifies: by a fault (breakpoint, seccomp, unmapped, cut-file, no-instruction,
 * division), abort, a signal by its number (raise-N, kill-N, queue-N), or no-instruction in several threads (together).
 * Returns the result of the faulting call if the process survives. */
int64_t workload_die(const char *way);

/* Installs a handler for SIGNAL. `returning` and `jumping` recover, `calling` and `restoring` continue with the
 * replaced handler, and `dying` raises the signal again with the default action. */
void workload_recover_from(int signal, const char *way);

/* Calls workload_die. The handler that jumps returns here. workload_recovered returns the number of runs of these
 * handlers. */
int64_t workload_die_or_jump(const char *way);
int workload_recovered(void);

/* Sends SIGNAL to thread TID of this process (tgkill(2)). */
void workload_signal_thread(int tid, int signal);

/* Adds only the calling thread to COUNT groups with long numbers. Needs privileges. Returns whether it could. */
bool workload_be_in_groups(int count);

/* Uses up RLIMIT_SIGPENDING, so the kernel drops the information of further signals. */
bool workload_use_up_pending_signals(void);

/* Replaces standard error by a pipe without a reader, or by the file PATH, limited to 64 bytes. */
void workload_break_standard_error(void);
void workload_fill_standard_error(const char *path);

/* Returns the calling thread's signal mask, with signal N as bit N-1. workload_block_signal adds SIGNAL to the mask. */
uint64_t workload_blocked_signals(void);
void workload_block_signal(int signal);

/* Blocks SIGNAL in the calling thread. Returns a signalfd(2) for it. */
int workload_read_by_descriptor(int signal);

/* Blocks every signal in the calling thread. Alternates between computing for WORK_NS and waiting for any signal for
 * WAIT_NS, until CLOCK_MONOTONIC reaches DEADLINE_NS. Returns the first signal received, or 0. */
int workload_compute_and_wait_for_signals(uint64_t work_ns, uint64_t wait_ns, uint64_t deadline_ns);

/* Installs a handler for SIGPROF with BLOCKED in its sa_mask. workload_mask_in_handler returns the signal mask of its
 * last run. */
void workload_install_masking_handler(int blocked);
uint64_t workload_mask_in_handler(void);

/* Gives the calling thread one CPU, slow timers, a nice value and real-time priority, each if permitted; SCHED_BATCH
 * without real-time priority. Returns whether it has real-time priority. */
bool workload_become_unusual(void);

/* Describes the scheduling of thread TID, in TEXT. */
void workload_describe_thread(int tid, char *text, uint64_t length);

#ifdef __cplusplus
}
#endif

#endif
