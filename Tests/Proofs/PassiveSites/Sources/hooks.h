/* Requests of a recorded program to the recorder, through an undefined system call. */
#ifndef HOOKS_H
#define HOOKS_H

#define HOOK_CALL 0x686f6f6b

enum hook {
  HOOK_MODULE = 1,      /* a module from A to B, with .eh_frame_hdr at C and the name D */
  HOOK_STACK = 2,       /* the thread's stack ends at A */
  HOOK_MEMORY = 3,      /* B bytes of code at A, in no module */
  HOOK_WATCH = 4,       /* record, as A, the stack before instruction number C of the function at B, without callees. A
                           negative C counts from the function's end and needs two calls of the function. */
  HOOK_WATCH_RANGE = 5, /* record, as A, the stack before the D-th instruction at an address from B to C */
  HOOK_BLOCK = 6, /* record, as A, the next system call that can block, but not before the int at B (if any) is set */
  HOOK_OTHER_STACK = 7, /* the thread also uses a stack from A to B */
  HOOK_COPY_BYTES = 8,  /* copy at most A bytes of the stack */
  HOOK_SURVEY = 9,      /* begin (A is 1) or end (A is 0) to compare at every instruction */
  HOOK_AFTER = 10,      /* the next stack is of the same work item as the recorded stack A */
};

static inline long hook(enum hook operation, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
#if defined(__x86_64__)
  long result = HOOK_CALL;
  register unsigned long third __asm__("r10") = c, fourth __asm__("r8") = d;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"((long)operation), "S"(a), "d"(b), "r"(third), "r"(fourth)
                   : "rcx", "r11", "memory");
  return result;
#else
  register long number __asm__("x8") = HOOK_CALL;
  register unsigned long result __asm__("x0") = (unsigned long)operation;
  register unsigned long first __asm__("x1") = a, second __asm__("x2") = b, third __asm__("x3") = c,
                               fourth __asm__("x4") = d;
  __asm__ volatile("svc 0" : "+r"(result) : "r"(number), "r"(first), "r"(second), "r"(third), "r"(fourth) : "memory");
  return (long)result;
#endif
}

#ifdef __cplusplus
extern "C"
#endif
    /* Passes the process's modules and the calling thread's stack to the recorder. Called on the first thread. */
    void
    announce(void);

#endif
