/* What the generated call chains and the program that compares their stacks share. */
#ifndef SITES_H
#define SITES_H

/* Keeps the compiler from dropping or moving what goes into it. */
extern volatile long sink;
void escape(void *pointer);

/* Calls itself so often and comes back: leaves frames on the stack below the caller. */
int churn(int depth);

/* Places to block in: each comes back when the comparison is over, however often it was interrupted. */
int block_read(void), block_semaphore(void), block_mutex(void), block_futex(void), block_condition(void), block_poll(void);
int block_nanosleep(void), block_epoll(void), block_select(void), block_usleep(void), block_flock(void), block_wait(void);

/* The generated chains: the outermost function of each. */
typedef int site(int, int, int, int, int, int, int, int);
extern site *const sites[];
extern const int site_count;

#endif
