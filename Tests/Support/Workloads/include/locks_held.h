/* Threads that are stuck while they hold a lock which a watchdog might need: the allocator's, the loader's, stdio's.
 *
 * A workload here takes its lock and calls workload_hold. Meanwhile another thread contends for the same lock, which
 * shows that it is held indeed. One at a time in a process. */
#ifndef LOCKS_HELD_H
#define LOCKS_HELD_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How workload_hold spends its time: computing, or waiting in one system call; and for how long at least. To be called
 * before the lock is taken. */
void workload_prepare_hold(uint64_t hold_ns, bool computes);

/* Holds on until that time is over and a thread contends. Async-signal-safe. */
void workload_hold(void);

/* Waits until workload_hold has begun, then runs OPERATION with CONTEXT, which needs the lock. On a thread of its
 * own. */
void workload_contend(void (*operation)(void *context), void *context);

/* Whether a thread was contending and had not got through when workload_hold ended. */
bool workload_was_contended(void);

/* Lets the allocator have COUNT arenas, which threads that are yet to be started share. */
void workload_use_arenas(int count);

/* Calls workload_hold inside malloc, with the lock of the arena held: the memory that malloc finds in its list of free
 * chunks cannot be accessed, and the handler of that fault holds on before it makes it accessible again. Returns false
 * when it did not come to that. */
bool workload_hold_in_malloc(void);

/* Exits with STATUS in the handler of a signal that comes while the calling thread holds the allocator's lock;
 * or dies there of SIGNAL. */
void workload_exit_in_malloc(int status);
void workload_die_in_malloc(int signal);

/* Calls workload_hold while the thread has locked stdout and stderr. */
void workload_hold_stdio(void);

/* Calls workload_hold in a callback of dl_iterate_phdr, which holds the lock of the loader's list of modules. */
void workload_hold_in_module_list(void);

/* Calls the function plugin_works of the library at PATH with workload_rest, which sleeps for 280 ms; closes the
 * library, and sleeps for three times as long. Returns whether it could. */
bool workload_hold_in_plugin(const char *path);
void workload_rest(void);

/* Opens the library at PATH, whose initializer calls workload_hold: it finds the function's address, in hexadecimal, in
 * the environment variable WORKLOAD_HOLD. Returns false when it cannot be opened. */
bool workload_hold_in_initializer(const char *path);

/* Functions for workload_contend. Each takes the lock that the workload_hold function of similar name holds. */
void workload_need_malloc(void *context);
void workload_need_stdio(void *context);
void workload_need_module_list(void *context);
void workload_need_loader(void *context);

/* Throws C++ exceptions through some sixteen functions, workload_throw_16 to workload_throw_0, until the calling thread
 * has used a processor for TIME_NS: so long that there are as many samples of it on a busy machine as on a quiet one.
 * Some of the functions have destructors to run, some catch and throw again. Returns how many were caught, or -1 when
 * one was not caught where it had to be. */
int64_t workload_throw_and_catch(uint64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
