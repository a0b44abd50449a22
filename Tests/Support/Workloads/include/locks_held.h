/* Threads that stall while they hold a lock that a watchdog might need: the allocator's, the loader's, stdio's.
 *
 * A workload here takes its lock and calls workload_hold. Meanwhile another thread contends, which proves that the lock
 * is held. A process can run one workload at a time. */
#ifndef LOCKS_HELD_H
#define LOCKS_HELD_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets whether workload_hold computes or waits in one system call, and its minimum duration. Called before the lock is
 * taken. */
void workload_prepare_hold(uint64_t hold_ns, bool computes);

/* Returns after the minimum duration, once a thread contends. Async-signal-safe. */
void workload_hold(void);

/* Waits until workload_hold has begun, then runs OPERATION, which needs the lock, with CONTEXT. Call on a separate
 * thread. */
void workload_contend(void (*operation)(void *context), void *context);

/* Whether a thread was still contending when workload_hold ended. */
bool workload_was_contended(void);

/* Limits the allocator to COUNT arenas, which threads started later share. */
void workload_use_arenas(int count);

/* Calls workload_hold inside malloc, with the lock of the arena held. The first free chunk is inaccessible: the handler
 * of the fault calls workload_hold and then makes the chunk accessible. Returns false if malloc did not fault. */
bool workload_hold_in_malloc(void);

/* Exits with STATUS, or dies of SIGNAL, in the handler of a signal that arrives while the calling thread holds the
 * allocator's lock. */
void workload_exit_in_malloc(int status);
void workload_die_in_malloc(int signal);

/* Calls workload_hold while the thread has locked stdout and stderr. */
void workload_hold_stdio(void);

/* Calls workload_hold in a callback of dl_iterate_phdr, which holds the lock of the loader's list of modules. */
void workload_hold_in_module_list(void);

/* Calls the function plugin_works of the library at PATH with workload_rest, which sleeps for 280 ms. Then closes the
 * library and calls workload_rest three times. Returns whether it could. */
bool workload_hold_in_plugin(const char *path);
void workload_rest(void);

/* Opens the library at PATH, whose initializer calls workload_hold. The environment variable WORKLOAD_HOLD has the
 * address of workload_hold, in hexadecimal. Returns false if the library cannot be opened. */
bool workload_hold_in_initializer(const char *path);

/* Functions for workload_contend. Each takes the lock that the workload_hold function of similar name holds. */
void workload_need_malloc(void *context);
void workload_need_stdio(void *context);
void workload_need_module_list(void *context);
void workload_need_loader(void *context);

/* Throws C++ exceptions through the functions workload_throw_16 to workload_throw_0, until the calling thread has used
 * TIME_NS of CPU time. So the load does not change the number of samples. Some of the functions have destructors, some
 * catch and throw again. Returns the number of caught exceptions, or -1 if an exception did not reach its handler. */
int64_t workload_throw_and_catch(uint64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
