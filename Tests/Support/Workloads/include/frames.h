/* Frames of every kind that a stack can have, each entered by a function that can be recognised. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes until *STOP is not 0: the innermost frame of the others. */
void frames_spin(const volatile int *stop);

/* Asks for the time, in the kernel's own code in this process (vdso(7)). */
void frames_in_vdso(const volatile int *stop);

/* Calls strlen(3), which needs no stack, through a PLT stub, for a long text. */
void frames_through_stub(const volatile int *stop);

/* Calls a function whose beginning and end take most of its time: pushes, pops and a large frame. */
void frames_mostly_prologue(const volatile int *stop);

/* Ends with a call that does not return, of a function that comes back here by longjmp(3). */
void frames_end_in_call(const volatile int *stop);

/* Calls frames_spin from a function whose frame is described by expressions (DW_CFA_def_cfa_expression), as GCC does
 * for over-aligned variables. */
void frames_by_expression(const volatile int *stop);

/* Call frames_spin from a function without unwind information: with a frame pointer, and with neither. */
void frames_no_cfi_framed(const volatile int *stop);
void frames_no_cfi_unframed(const volatile int *stop);

/* Sleeps, a hundredth of a second at a time, in the innermost of three functions without unwind information that keep
 * frame pointers: frames_bare_sleep, frames_bare_middle and frames_bare_outer. */
void frames_no_cfi_blocked(const volatile int *stop);

/* Calls a function without unwind information and without a frame that itself computes. */
void frames_no_cfi_leaf(const volatile int *stop);

/* Call functions without unwind information that are reached by a jump of the function that is called: without a frame,
 * and with one. */
void frames_no_cfi_by_jump(const volatile int *stop);
void frames_no_cfi_framed_by_jump(const volatile int *stop);

/* Calls one that returns by jumping through a register to another one. */
void frames_no_cfi_goes_on(const volatile int *stop);

/* Calls one that jumps by a table, and ends with a call that does not return. */
void frames_no_cfi_switch(const volatile int *stop);

/* Calls frames_bare_lost, whose frame half of the time has a size that is only in a register. */
void frames_no_cfi_lost(const volatile int *stop);

/* Calls, by the same call of frames_left_over, frames_former, and frames_latter, which calls frames_bare_lost while a
 * return address into frames_former is left above it. */
void frames_no_cfi_left_over(const volatile int *stop);

/* Calls frames_spin from code that is made at run time, in no module: with frame pointers two deep, and without. */
void frames_made_framed(const volatile int *stop);
void frames_made_unframed(const volatile int *stop);

/* Computes in code that is made at run time: before it has a frame, and with one, in turn. */
void frames_made_spin(const volatile int *stop);

/* Whether this architecture's code is there to be made. */
bool frames_can_be_made(void);

/* Calls BODY with STOP, and with a function that computes until STOP and then leaves BODY by longjmp(3). */
void frames_leave(void (*body)(void (*)(const volatile int *), const volatile int *), const volatile int *stop);

#ifdef __cplusplus
}
#endif

#endif
