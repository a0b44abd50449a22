/* Blocks threads in the kernel. */
#ifndef KERNEL_WAITS_H
#define KERNEL_WAITS_H

#include <stdbool.h>

/* Mounts at PLACE a file system in user space, which has FILE as NAME, and serves it without read-ahead. Needs root.
 * Calls IS_MOUNTED after mounting. Returns 0 after the unmount, or the negative of an errno value if mounting fails. */
int silent_file_system_serve(const char *file, const char *name, const char *place, void (*is_mounted)(void));

/* Writes to the mapped page PLACE. Blocks while its file system is frozen. */
void store_into_frozen_file(volatile char *place);

/* Starts COUNT threads, UNANSWERED_PAGES_MAX at most. In the used part of each stack one page is missing until
 * unanswered_pages_answer: a thread that reads it blocks in the kernel. Each thread calls MARK with its index, from 0
 * on, and true, blocks in read(2) from DESCRIPTOR, and calls MARK with false. Returns 0 or an errno value (EPERM:
 * userfaultfd(2) is refused). */
enum { UNANSWERED_PAGES_MAX = 8 };
int unanswered_pages_start(int count, int descriptor, void (*mark)(int place, bool begins));

/* Resolves the page faults. */
void unanswered_pages_answer(void);

/* Gives the calling thread the smallest alternate stack for signals that the kernel accepts, with nothing mapped below
 * it. */
void use_small_signal_stack(void);

/* Computes for MILLISECONDS on a new thread with a stack of 20 KiB, 1 KiB of which is left. While most of the stack is
 * free, the thread calls MARK, unless NULL, with true before the computation and false afterwards. Returns 0 or an
 * errno value after the end of the thread. */
int compute_with_little_stack(int milliseconds, void (*mark)(bool begins));

/* Starts a thread by clone(2), with the thread pointer 0, that computes for MILLISECONDS. Returns 0 or an errno value
 * at once. */
int compute_on_bare_thread(int milliseconds);

/* Sleeps for MILLISECONDS with the stack pointer 64 bytes above the start of the main thread's lowest stack page,
 * without touching memory below. Call once, on the main thread. */
void sleep_at_lowest_page(int milliseconds);

#endif
