/* What "tools/prove captures" observes, and what it compares with: threads at a known depth, bystanders that notice
 * when they are held up, and the ways of taking stacks that Culprit does not use. */
#ifndef PEERS_H
#define PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Lets the calling thread be sent the signals that are used here: whoever started the process may have blocked them. */
void peer_accept_signals(void);

/* A thread that computes, with LIVE_BYTES of stack in FRAMES frames above it. Its handlers run on a stack of their own,
 * of which can be told how much they used. */
struct peer_spinner;

/* Starts one, which calls PREPARE first; on a coroutine's stack (makecontext(3)) where COROUTINE says so. Returns NULL
 * when it cannot. */
struct peer_spinner *peer_spinner_start(uint32_t frames, size_t live_bytes, bool coroutine, void (*prepare)(void));
pid_t peer_spinner_thread(const struct peer_spinner *spinner);
void peer_spinner_stop(struct peer_spinner *spinner);

/* Forgets, and then tells, how many bytes of their stack SPINNER's handlers have used, the kernel's signal frame
 * included. Not while one runs. */
void peer_spinner_forget_handlers(struct peer_spinner *spinner);
size_t peer_spinner_handler_bytes(const struct peer_spinner *spinner);

/* Runs a handler in SPINNER that does nothing: what it uses is the kernel's. Returns when it has. */
void peer_spinner_interrupt(struct peer_spinner *spinner);

/* Loads libunwind for peer_unwind_in_handler. Returns NULL, or what is missing. */
const char *peer_unwinder_start(void);

/* Unwinds SPINNER in a signal handler, as most samplers do (unw_step(3) from the handler's context), with nothing
 * learnt before where COLD says so. Sets *FRAMES. Returns the nanoseconds spent in the handler, 0 when it failed. */
uint64_t peer_unwind_in_handler(struct peer_spinner *spinner, bool cold, uint32_t *frames);

/* COUNT threads that sleep most of the time: together they wake a hundred times a second, for a few microseconds. */
struct peer_crowd;
struct peer_crowd *peer_crowd_start(uint32_t count);
void peer_crowd_stop(struct peer_crowd *crowd);

/* Stops every thread of CROWD and the bystander at once, walks one after the other, which takes WALK_NS for each, and
 * lets them go: how samplers work that do not copy. */
void peer_crowd_stop_all(struct peer_crowd *crowd, uint64_t walk_ns);

/* A thread that looks at the clock without a pause. There is one at a time. */
bool peer_bystander_start(void);
void peer_bystander_stop(void);

/* The longest time between two looks since this was last called, in nanoseconds, less what it was ready to run and
 * other threads or programs had the processors: that is no hold-up by whoever captures. */
uint64_t peer_bystander_worst_ns(void);

#endif
