/* What holds up threads in the kernel. */
#ifndef KERNEL_WAITS_H
#define KERNEL_WAITS_H

#include <stdbool.h>

/* Mounts at PLACE, as root, a file system in user space that has the content of FILE under NAME, and answers for it
 * until the device is closed. Nothing is read ahead. Returns when it has been unmounted, or the negative of an errno
 * value when it cannot be mounted. Calls IS_MOUNTED once it is. */
int silent_file_system_serve(const char *file, const char *name, const char *place, void (*is_mounted)(void));

/* A page of PLACE, which is mapped, is written to. Waits for as long as its file system does. */
void store_into_frozen_file(volatile char *place);

/* Starts COUNT threads, UNANSWERED_PAGES_MAX at most. The stack of each has a page, in the middle of what it uses, that
 * is not there and never comes until unanswered_pages_answer: whoever reads it waits in the kernel. Each calls MARK
 * with its place, from 0 on, and true and false around blocking in read(2) from DESCRIPTOR. Returns 0 or an errno value
 * (EPERM: userfaultfd(2) is refused). */
enum { UNANSWERED_PAGES_MAX = 8 };
int unanswered_pages_start(int count, int descriptor, void (*mark)(int place, bool begins));

/* Lets the pages come. */
void unanswered_pages_answer(void);

/* Gives the calling thread the smallest alternate stack for signals that the kernel accepts, with nothing mapped below
 * it. */
void use_small_signal_stack(void);

/* Computes for MILLISECONDS on a new thread with a stack of 20 KiB, 3 KiB of which are left. The thread calls MARK, if
 * that is not NULL, with true and false around the computation, where most of the stack is left. Returns when the
 * thread has ended, 0 or an errno value. */
int compute_with_little_stack(int milliseconds, void (*mark)(bool begins));

/* Computes for MILLISECONDS on a new thread made by the bare clone(2), whose thread pointer is 0. Returns at once, 0 or
 * an errno value. */
int compute_on_bare_thread(int milliseconds);

/* Sleeps for MILLISECONDS with the stack pointer at most 64 bytes above the lowest page that the main thread's stack
 * has grown to, without touching what is below. To be called on the main thread, once. */
void sleep_at_lowest_page(int milliseconds);

#endif
