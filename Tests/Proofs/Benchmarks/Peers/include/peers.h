/* Workloads and peers for "tools/prove captures": threads with stacks of known depth, a bystander that measures
 * delays, and methods of capturing stacks that Culprit does not use. */
#ifndef PEERS_H
#define PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Unblocks the signals of this library in the calling thread, which might have inherited a mask that blocks them. */
void peer_accept_signals(void);

/* A computing thread whose FRAMES frames take LIVE_BYTES of stack. Its handlers run on an alternate signal stack whose
 * use is measured. */
struct peer_spinner;

/* Starts a spinner, which calls PREPARE first. If COROUTINE, the spinner runs on a coroutine's stack (makecontext(3)).
 * Returns NULL on failure. */
struct peer_spinner *peer_spinner_start(uint32_t frames, size_t live_bytes, bool coroutine, void (*prepare)(void));
pid_t peer_spinner_thread(const struct peer_spinner *spinner);
void peer_spinner_stop(struct peer_spinner *spinner);

/* Reset and return the number of bytes of stack used by SPINNER's handlers, including the kernel's signal frame. Must
 * not be called while a handler runs. */
void peer_spinner_forget_handlers(struct peer_spinner *spinner);
size_t peer_spinner_handler_bytes(const struct peer_spinner *spinner);

/* Runs an empty handler in SPINNER to completion. The handler's stack use is the kernel's share. */
void peer_spinner_interrupt(struct peer_spinner *spinner);

/* Loads libunwind for peer_unwind_in_handler. Returns NULL, or the name of the missing part. */
const char *peer_unwinder_start(void);

/* Unwinds SPINNER in a signal handler, as most samplers do (unw_step(3) from the handler's context). COLD flushes
 * libunwind's cache first. Sets *FRAMES. Returns the nanoseconds spent in the handler, 0 on failure. */
uint64_t peer_unwind_in_handler(struct peer_spinner *spinner, bool cold, uint32_t *frames);

/* COUNT threads that sleep most of the time: together they wake a hundred times a second, for a few microseconds. */
struct peer_crowd;
struct peer_crowd *peer_crowd_start(uint32_t count);
void peer_crowd_stop(struct peer_crowd *crowd);

/* Simulates a sampler that does not copy stacks: stops all threads of CROWD and the bystander at once, computes for
 * WALK_NS per thread, and resumes them. */
void peer_crowd_stop_all(struct peer_crowd *crowd, uint64_t walk_ns);

/* A thread that reads the clock in a loop. At most one runs at a time. */
bool peer_bystander_start(void);
void peer_bystander_stop(void);

/* Returns the bystander's longest time between two clock reads since the last call, in nanoseconds. Excludes time in
 * which the thread was runnable without a CPU, because captures do not cause it. */
uint64_t peer_bystander_worst_ns(void);

#endif
