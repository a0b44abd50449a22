/* What a stress test does to its own process that takes C: signals, children, limits, threads that check every return.
 */
#ifndef STRESS_HARM_H
#define STRESS_HARM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Shared by the service and what looks after it, in a file that both map. */
struct stress_shared {
  _Atomic uint64_t stopped_ns; /* for how long the service has been stopped by SIGSTOP, up to the last SIGCONT */
  _Atomic int32_t quiet[16];   /* threads that check every return: they are sent no signal that is not blocked there */
  _Atomic uint64_t early;      /* calls that returned early when SIGSTOP had interrupted them */
  _Atomic uint64_t beats;      /* grows as long as the service is alive */
};

/* Maps the shared page of the file at PATH, which is made when it is not there. Returns NULL on failure. Threads: any.
 */
struct stress_shared *stress_share(const char *path);

/* For how long the service has been stopped so far. Threads: any. */
uint64_t stress_stopped_ns(struct stress_shared *shared);

/* Adds to it. Threads: the one that stops it. */
void stress_add_stopped(struct stress_shared *shared, uint64_t ns);

/* How many calls of threads that check every return have returned early when SIGSTOP had interrupted them. Threads:
 * any.
 */
uint64_t stress_early(struct stress_shared *shared);

/* Tells that the service is alive; how often it has. Threads: any. */
void stress_beat(struct stress_shared *shared);
uint64_t stress_beats(struct stress_shared *shared);

/* Whether TID is one of the threads that check every return. Threads: any. */
bool stress_is_quiet(struct stress_shared *shared, int32_t tid);

/* CLOCK_MONOTONIC, and the same without the time in which the process was stopped. Threads: any. */
uint64_t stress_now_ns(void);
uint64_t stress_running_ns(void);

/* Installs handlers as a service has them, for every signal that can be handled and is not a fault; some that are
 * ignored. Threads: the first one, before there are others. */
void stress_install_handlers(void);

/* How many signals were handled, and how many of those were sent to the process and handled by a thread whose name
 * begins with "culprit-". Threads: any. */
uint64_t stress_signals(void);
uint64_t stress_stolen_signals(void);

/* A signal that stress_install_handlers provides for, by a number. Threads: any. */
int stress_signal(uint64_t number);

/* Sends SIGNAL to the thread TID of the process PROCESS. Threads: any. */
bool stress_send(int32_t process, int32_t tid, int signal);

/* Has SIGPROF come by the process's processor time for so long, as profilers do. Threads: one at a time. */
void stress_profile(uint32_t microseconds, uint32_t for_microseconds);

/* Starts threads that make system calls which time out, or are answered, and check every return. What is wrong is said
 * by TELL, on any of them. Threads: any, once. */
void stress_start_quiet_threads(struct stress_shared *shared, void (*tell)(const char *what));

/* How many of their calls have returned. Threads: any. */
uint64_t stress_quiet_calls(void);

/* fork(2). Threads: any. */
pid_t stress_fork(void);

/* Ends the process by _exit. Threads: any. */
__attribute__((noreturn)) void stress_leave(int status);

/* In a child: closes every descriptor above standard error, opens as many files of its own, lets BODY run, and checks
 * that they are what they were. Returns whether they are. Threads: the only one of a child. */
bool stress_own_descriptors(void (*body)(void *context), void *context);

/* Runs the program at WORDS[0] by vfork(2), or by posix_spawn(3). Its standard output goes to OUTPUT, unless that is
 * negative. Returns the child, or -1. Threads: any. */
pid_t stress_run(char *const words[], int output, bool by_vfork);

/* Waits for CHILD, for ten seconds at most; then it is killed. Returns its exit status, minus the signal that ended it,
 * or -1000 when it had to be killed. Threads: any. */
int stress_wait(pid_t child);

/* Starts a thread that runs BODY and leaves by pthread_exit(3). Nobody joins it. Returns 0, or an errno value.
 * Threads: any. */
int stress_start_thread(void (*body)(void *context), void *context);

/* Limits for a while what the process may have: address space, EXTRA bytes more than now; open files, no more than now;
 * signals that are queued, none. Returns whether it could. Threads: one at a time. */
bool stress_limit_memory(uint64_t extra, uint32_t microseconds);
bool stress_limit_files(uint32_t microseconds);
bool stress_limit_signals(uint32_t microseconds);

/* Has the kernel drop every page of a mapped file that nobody is just using. Returns how many mappings that were.
 * Threads: any. */
int stress_drop_pages(void);

/* Lets everybody read what is written to standard error until the pipe's reader has gone: sets that up, and puts back
 * what was there before. SIGPIPE has its default action meanwhile. Threads: one at a time. */
int stress_break_standard_error(void);
void stress_mend_standard_error(int former);

/* A descriptor that SIGHUP can be read from, which is blocked in the calling thread from now on; and whether one came
 * within so many milliseconds. Threads: any. */
int stress_await_hangups(void);
bool stress_take_hangup(int descriptor, int milliseconds);

/* Steps CLOCK_REALTIME by SECONDS for a while and puts it back. Returns 0, or an errno value. Threads: one at a time.
 */
int stress_step_clock(int64_t seconds, uint32_t microseconds);

#endif
