/* What the generated call chains, the places that they block in and the program that compares their stacks share. */
#ifndef SITES_H
#define SITES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps the compiler from dropping or moving what goes into it. */
extern volatile long sink;
void escape(void *pointer);

/* Marks the way to it as seldom taken. */
__attribute__((cold)) void seldom(void);

/* Above 0 while a chain is run without blocking, to leave its frames behind on the stack. */
extern volatile int dry;

/* Whether whoever is blocked is to come back. */
extern volatile int over;

/* Set once a thread is about to block at the end of its chain; it waits nowhere else from then on. */
extern volatile int arrived;

/* The same for Swift, which does not know volatile. */
int is_dry(void), is_over(void);
void arrive(void);

/* Calls itself so often and comes back: leaves frames on the stack below the caller. */
int churn(int depth);

/* Calls FUNCTION with CONTEXT below so many frames of its own, while nothing blocks. */
void deeper(int depth, int (*function)(void *), void *context);

/* Places to block in: each comes back when the comparison is over, however often it was interrupted; and at once when
 * it is dry. */
int block_read(void), block_semaphore(void), block_mutex(void), block_futex(void), block_condition(void),
    block_poll(void);
int block_nanosleep(void), block_epoll(void), block_select(void), block_usleep(void), block_flock(void),
    block_wait(void);

/* Prepare what a thread is to block in, and end whatever it blocks in. */
void blocks_prepare(const char *file_to_lock);
void blocks_end(void);

/* Call FUNCTION with CONTEXT through code without unwind information: assembly that keeps a frame pointer, that keeps
 * none, that uses its register for something else, and that calls through a thunk; copies of the former two, in memory
 * of no module; a closure of libffi; C that was compiled without unwind tables. */
int through_framed(int (*function)(void *), void *context), through_unframed(int (*function)(void *), void *context),
    through_kept(int (*function)(void *), void *context), through_thunk(int (*function)(void *), void *context);
int through_made_framed(int (*function)(void *), void *context),
    through_made_unframed(int (*function)(void *), void *context);
int through_closure(int (*function)(void *), void *context);
int through_flagged(int (*function)(void *), void *context),
    through_flagged_alloca(int (*function)(void *), void *context);

/* The generated chains: how many there are, and a call of one of them. */
int site_count(void);
int site_run(int number);

#ifdef __cplusplus
}
#endif
#endif
