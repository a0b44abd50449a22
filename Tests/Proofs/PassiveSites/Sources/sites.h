/* Shared parts of the generated call chains, their blocking functions, and the program that compares stacks. */
#ifndef SITES_H
#define SITES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Stores results: keeps the compiler from removing or moving their computation. */
extern volatile long sink;
void escape(void *pointer);

/* Marks its branch as unlikely. */
__attribute__((cold)) void seldom(void);

/* Above 0 while a chain runs without blocking, to leave data on the stack. */
extern volatile int dry;

/* Set to end the blocking calls. */
extern volatile int over;

/* Set just before the final blocking call of a chain. */
extern volatile int arrived;

/* Accessors for Swift, which does not support volatile. */
int is_dry(void), is_over(void);
void arrive(void);

/* Recurses DEPTH times and returns, to leave data on the stack below the caller. */
int churn(int depth);

/* Calls FUNCTION with CONTEXT below DEPTH further frames, with blocking disabled. */
void deeper(int depth, int (*function)(void *), void *context);

/* Blocking functions. Each returns when the comparison is over, even if interrupted before. While `dry` is above 0,
 * each returns at once. */
int block_read(void), block_semaphore(void), block_mutex(void), block_futex(void), block_condition(void),
    block_poll(void);
int block_nanosleep(void), block_epoll(void), block_select(void), block_usleep(void), block_flock(void),
    block_wait(void);

/* Prepare the objects that threads block on, and end all blocking calls. */
void blocks_prepare(const char *file_to_lock);
void blocks_end(void);

/* Call FUNCTION with CONTEXT through code without unwind information. Assembly: with a frame pointer, without it, with
 * another use of its register, through a thunk. Copies, in no module, of framed and unframed assembly. A closure of
 * libffi. C compiled without unwind tables. */
int through_framed(int (*function)(void *), void *context), through_unframed(int (*function)(void *), void *context),
    through_kept(int (*function)(void *), void *context), through_thunk(int (*function)(void *), void *context);
int through_made_framed(int (*function)(void *), void *context),
    through_made_unframed(int (*function)(void *), void *context);
int through_closure(int (*function)(void *), void *context);
int through_flagged(int (*function)(void *), void *context),
    through_flagged_alloca(int (*function)(void *), void *context);

/* The number of generated chains, and a call of chain NUMBER. */
int site_count(void);
int site_run(int number);

#ifdef __cplusplus
}
#endif
#endif
