/* All kinds of frames that a stack can have. A recognisable function enters each frame. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Computes until *STOP is not 0. Innermost frame of most functions here. */
void frames_spin(const volatile int *stop);

/* Reads the time in code of the kernel that is mapped into this process (vdso(7)). */
void frames_in_vdso(const volatile int *stop);

/* Calls strlen(3), which needs no stack, with a long string through a PLT stub. */
void frames_through_stub(const volatile int *stop);

/* Calls a function that spends most of its time in prologue and epilogue. */
void frames_mostly_prologue(const volatile int *stop);

/* Ends with a call that does not return. The callee returns here by longjmp(3). */
void frames_end_in_call(const volatile int *stop);

/* Calls frames_spin from a function whose frame is described by expressions (DW_CFA_def_cfa_expression), as GCC does
 * for over-aligned variables. */
void frames_by_expression(const volatile int *stop);

/* Call frames_spin from a function without unwind information: with a frame pointer, and without. */
void frames_no_cfi_framed(const volatile int *stop);
void frames_no_cfi_unframed(const volatile int *stop);

/* Sleeps, a hundredth of a second at a time, in the innermost of three functions without unwind information that keep
 * frame pointers: frames_bare_sleep, frames_bare_middle and frames_bare_outer. */
void frames_no_cfi_blocked(const volatile int *stop);

/* Calls a leaf function without unwind information and without a frame. */
void frames_no_cfi_leaf(const volatile int *stop);

/* Call functions without unwind information through a function that jumps to them: without a frame, and with one. */
void frames_no_cfi_by_jump(const volatile int *stop);
void frames_no_cfi_framed_by_jump(const volatile int *stop);

/* Calls a function that returns by jumping through a register to another one. */
void frames_no_cfi_goes_on(const volatile int *stop);

/* Calls a function that jumps by a table, and ends with a call that does not return. */
void frames_no_cfi_switch(const volatile int *stop);

/* Calls frames_bare_lost. For half of the time, the size of its frame is only in a register. */
void frames_no_cfi_lost(const volatile int *stop);

/* Calls frames_former and then frames_latter, from one call site of frames_left_over. frames_latter calls
 * frames_bare_lost below a stale return address into frames_former. */
void frames_no_cfi_left_over(const volatile int *stop);

/* Call frames_spin from code that is generated at run time, outside modules: with two frame pointers, and without. */
void frames_made_framed(const volatile int *stop);
void frames_made_unframed(const volatile int *stop);

/* Computes in code that is generated at run time, alternately before it has a frame and with one. */
void frames_made_spin(const volatile int *stop);

/* Whether this architecture's code can be generated. */
bool frames_can_be_made(void);

/* Calls BODY with a function and STOP. The function computes until *STOP and then leaves BODY by longjmp(3). */
void frames_leave(void (*body)(void (*)(const volatile int *), const volatile int *), const volatile int *stop);

#ifdef __cplusplus
}
#endif

#endif
