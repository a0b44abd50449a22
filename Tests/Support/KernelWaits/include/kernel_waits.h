/* Holds up threads in the kernel. */
#ifndef KERNEL_WAITS_H
#define KERNEL_WAITS_H

#include <stdbool.h>

/* Mounts the content of FILE at PLACE, under NAME, by a file system in user space, and serves it until the device is
 * closed. Nothing is read ahead. Needs root. Calls IS_MOUNTED once it is mounted. Returns after it has been unmounted,
 * or the negative of an errno value when it cannot be mounted. */
int silent_file_system_serve(const char *file, const char *name, const char *place, void (*is_mounted)(void));

/* Writes to a page of PLACE, which is mapped. Blocks while its file system is frozen. */
void store_into_frozen_file(volatile char *place);

/* Starts COUNT threads, UNANSWERED_PAGES_MAX at most. In the used part of each stack one page is missing until
 * unanswered_pages_answer: a thread that reads it blocks in the kernel. Each thread calls MARK with its index, from 0
 * on, and true and false around blocking in read(2) from DESCRIPTOR. Returns 0 or an errno value (EPERM:
 * userfaultfd(2) is refused). */
enum { UNANSWERED_PAGES_MAX = 8 };
int unanswered_pages_start(int count, int descriptor, void (*mark)(int place, bool begins));

/* Resolves the page faults. */
void unanswered_pages_answer(void);

/* Gives the calling thread the smallest alternate stack for signals that the kernel accepts, with nothing mapped below
 * it. */
void use_small_signal_stack(void);

/* Computes for MILLISECONDS on a new thread with a stack of 20 KiB, 1 KiB of which is left. The thread calls MARK, if
 * that is not NULL, with true and false around the computation, where most of the stack is left. Returns when the
 * thread has ended, 0 or an errno value. */
int compute_with_little_stack(int milliseconds, void (*mark)(bool begins));

/* Computes for MILLISECONDS on a new thread made by the bare clone(2), whose thread pointer is 0. Returns at once, 0 or
 * an errno value. */
int compute_on_bare_thread(int milliseconds);

/* Sleeps for MILLISECONDS with the stack pointer at most 64 bytes above the lowest page that the main thread's stack
 * has grown to, without touching memory below. Call once, on the main thread. */
void sleep_at_lowest_page(int milliseconds);

#endif
