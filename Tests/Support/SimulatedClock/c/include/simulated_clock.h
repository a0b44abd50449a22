/* A clock for tests. Time passes only while a test waits for it, and only after the watchdog's threads have done all
 * work of the present instant. All functions can be called from any thread.
 *
 * A driver thread advances the time from one deadline to the next while a test waits: in one of the functions below, or
 * inside a waiting call of the watchdog. At each instant the driver waits until no thread of the watchdog works. After
 * a simulation the clock stays ahead of the kernel's, because it must never go back. */
#ifndef SIMULATED_CLOCK_H
#define SIMULATED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Stops the clock and begins a simulation. IS_BUSY returns whether work outside the watchdog's threads is pending at
 * this instant, for example a requested capture; NULL for none. The clock waits for pending work for at most
 * PATIENCE_NS of the kernel's time. */
void simulated_clock_begin(bool (*is_busy)(void), uint64_t patience_ns);

/* Ends the simulation: the clock runs with the kernel's again. */
void simulated_clock_end(void);

/* Returns the present time, in nanoseconds of CLOCK_MONOTONIC. */
uint64_t simulated_clock_now_ns(void);

/* Lets the time pass until UNTIL_NS, and blocks until the work of that instant is done. */
void simulated_clock_block_until(uint64_t until_ns);

/* Lets the time pass until UNTIL_NS, and returns at once. */
void simulated_clock_let_pass_until(uint64_t until_ns);

/* Advances the time in one step, past every deadline in between, as if the process had been stopped or suspended. */
void simulated_clock_skip(uint64_t duration_ns);

/* Sets CLOCK_REALTIME forwards or backwards. */
void simulated_clock_step_wall(int64_t step_ns);

/* Make a thread of a test count as one of the watchdog's: time passes only while the thread waits in one of these
 * functions or is idle. Called by the creating thread, and by the new thread at its start and at its end. */
void simulated_clock_thread_created(void);
void simulated_clock_thread_began(void);
void simulated_clock_thread_ends(void);

/* Sets whether the calling thread waits for the test, during which time can pass. Called by threads of the watchdog
 * that run code of the test, or by threads that count as the watchdog's. */
void simulated_clock_set_idle(bool is_idle);

#endif
