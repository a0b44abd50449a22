/* Requests of a recorded program to the recorder, by a system call that no kernel has. */
#ifndef HOOKS_H
#define HOOKS_H

#define HOOK_CALL 0x686f6f6b

enum hook {
  HOOK_MODULE = 1, /* there is a module from A to B, whose .eh_frame_hdr is at C and whose name is D */
  HOOK_STACK = 2,  /* the thread's stack ends at A */
  HOOK_MEMORY = 3, /* there is code in no module, from A, B bytes of it */
  HOOK_WATCH = 4,  /* record, as A, the stack before instruction number C of the function at B, counted from its entry
                      without what it calls; a negative one is counted from its end, and takes two calls of it */
  HOOK_WATCH_RANGE = 5, /* record, as A, the stack before the D-th instruction at an address from B to C */
  HOOK_BLOCK = 6, /* record, as A, the next system call that may block, once the int at B, if B is not 0, is not 0 */
  HOOK_OTHER_STACK = 7, /* another stack from A to B is used from now on */
  HOOK_COPY_BYTES = 8,  /* copy A bytes of the stack at most */
  HOOK_SURVEY = 9,      /* compare at every instruction from now on (A is 1), or no more */
  HOOK_AFTER = 10,      /* the next stack is one of the same work as the recorded one named A */
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
