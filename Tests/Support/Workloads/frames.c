#define _GNU_SOURCE
#include "TestWorkloads.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define KEPT __attribute__((noinline, used))

static volatile uint64_t sink;

KEPT void frames_spin(const volatile int *stop) {
  while (*stop == 0)
    sink++;
}

KEPT void frames_in_vdso(const volatile int *stop) {
  struct timespec time;
  while (*stop == 0)
    clock_gettime(CLOCK_MONOTONIC, &time);
  sink++;
}

KEPT void frames_through_stub(const volatile int *stop) {
  static char text[64 << 10];
  memset(text, 'a', sizeof text - 1);
  while (*stop == 0)
    sink += strlen(text + (sink & 1));
  sink++;
}

KEPT static uint64_t large_frame(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  volatile uint8_t room[4000];
  room[a % sizeof room] = (uint8_t)b;
  for (uint64_t i = 0; i < 2; i++)
    sink += a * b + c * d + e * f + (a ^ d) * (b ^ e) + (c ^ f) * i;
  return room[a % sizeof room] + a * f + b * e + c * d;
}

KEPT void frames_mostly_prologue(const volatile int *stop) {
  while (*stop == 0)
    for (uint64_t round = 0; round < 1000; round++)
      sink += large_frame(round, 2, 3, 4, 5, sink);
  sink++;
}

static _Thread_local jmp_buf back;

KEPT __attribute__((noreturn)) static void leave_when_stopped(const volatile int *stop) {
  frames_spin(stop);
  longjmp(back, 1);
}

KEPT __attribute__((noreturn)) static void call_at_the_end(const volatile int *stop) {
  sink++;
  leave_when_stopped(stop);
}

KEPT void frames_end_in_call(const volatile int *stop) {
  if (setjmp(back) == 0)
    call_at_the_end(stop);
  sink++;
}

KEPT void frames_leave(void (*body)(void (*)(const volatile int *), const volatile int *), const volatile int *stop) {
  if (setjmp(back) == 0)
    body(leave_when_stopped, stop);
  sink++;
}

/* The loop around the call of a function in assembly prevents a tail call, so the caller keeps its frame. */
#define ENTERED_BY(caller, function)                                                                                   \
  void function(const volatile int *stop);                                                                             \
  KEPT void caller(const volatile int *stop) {                                                                         \
    while (*stop == 0)                                                                                                 \
      function(stop);                                                                                                  \
    sink++;                                                                                                            \
  }

ENTERED_BY(frames_by_expression, frames_expression)
ENTERED_BY(frames_no_cfi_framed, frames_bare_framed)
ENTERED_BY(frames_no_cfi_unframed, frames_bare_unframed)
ENTERED_BY(frames_no_cfi_blocked, frames_bare_outer)
ENTERED_BY(frames_no_cfi_leaf, frames_bare_leaf)
ENTERED_BY(frames_no_cfi_by_jump, frames_jumps_to_leaf)
ENTERED_BY(frames_no_cfi_framed_by_jump, frames_jumps_to_framed)
ENTERED_BY(frames_no_cfi_goes_on, frames_bare_goes_on)
ENTERED_BY(frames_no_cfi_switch, frames_bare_switch)
ENTERED_BY(frames_no_cfi_left_over, frames_left_over)

/* Computes for part of the time, so a complete stack can end in this function. */
void frames_bare_lost(const volatile int *stop);
KEPT void frames_no_cfi_lost(const volatile int *stop) {
  while (*stop == 0) {
    for (int turn = 0; turn < 2000; turn++)
      sink++;
    frames_bare_lost(stop);
  }
}

#if defined(__x86_64__)

__asm__(".macro local_function name\n"
        ".balign 16\n"
        ".type \\name, @function\n"
        "\\name:\n"
        ".endm\n"
        ".macro function name\n"
        ".globl \\name\n"
        "local_function \\name\n"
        ".endm\n");

/* As compiled by GCC for a function with a variable aligned to 32 bytes and a variable-length array. */
__asm__(".text\n"
        "function frames_expression\n"
        ".cfi_startproc\n"
        "lea 8(%rsp), %r10\n"
        ".cfi_def_cfa 10, 0\n"
        "and $-32, %rsp\n"
        "push -8(%r10)\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        ".cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00\n" /* rbp is saved at rbp + 0 */
        "push %r10\n"
        ".cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06\n" /* the frame's address is the value at rbp - 8 */
        "sub $40, %rsp\n"
        "call frames_spin\n"
        "mov -8(%rbp), %r10\n"
        ".cfi_def_cfa 10, 0\n"
        "leave\n"
        "lea -8(%r10), %rsp\n"
        ".cfi_def_cfa 7, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size frames_expression, . - frames_expression\n");

/* Without .cfi directives, so the unwind table has no entries for these functions. */
__asm__(".text\n"
        "function frames_bare_framed\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        "push %rbx\n"
        "sub $24, %rsp\n"
        "call frames_spin\n"
        "add $24, %rsp\n"
        "pop %rbx\n"
        "pop %rbp\n"
        "ret\n"
        ".size frames_bare_framed, . - frames_bare_framed\n"
        "function frames_bare_unframed\n"
        "sub $24, %rsp\n"
        "call frames_spin\n"
        "add $24, %rsp\n"
        "ret\n"
        ".size frames_bare_unframed, . - frames_bare_unframed\n"
        "function frames_bare_sleep\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        "sub $32, %rsp\n"
        "mov %rdi, -24(%rbp)\n"
        "1: movq $0, -16(%rbp)\n"
        "movq $10000000, -8(%rbp)\n"
        "lea -16(%rbp), %rdi\n" /* the callee can write there */
        "xor %esi, %esi\n"
        "call nanosleep@PLT\n"
        "mov -24(%rbp), %rax\n"
        "cmpl $0, (%rax)\n"
        "je 1b\n"
        "leave\n"
        "ret\n"
        ".size frames_bare_sleep, . - frames_bare_sleep\n"
        "function frames_bare_middle\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        "call frames_bare_sleep\n"
        "leave\n"
        "ret\n"
        ".size frames_bare_middle, . - frames_bare_middle\n"
        "function frames_bare_outer\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        "lea frames_bare_middle(%rip), %rax\n"
        "call *%rax\n"
        "leave\n"
        "ret\n"
        ".size frames_bare_outer, . - frames_bare_outer\n"
        "function frames_bare_leaf\n"
        "mov $2000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "ret\n"
        ".size frames_bare_leaf, . - frames_bare_leaf\n"
        /* Functions with unwind information that jump to functions without it. The call site names the jumping
         * function. */
        "function frames_jumps_to_leaf\n"
        ".cfi_startproc\n"
        "jmp frames_bare_jumped_leaf\n"
        ".cfi_endproc\n"
        ".size frames_jumps_to_leaf, . - frames_jumps_to_leaf\n"
        "function frames_jumps_to_framed\n"
        ".cfi_startproc\n"
        "jmp frames_bare_jumped_framed\n"
        ".cfi_endproc\n"
        ".size frames_jumps_to_framed, . - frames_jumps_to_framed\n"
        "local_function frames_bare_jumped_leaf\n"
        "mov $200, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "ret\n"
        ".size frames_bare_jumped_leaf, . - frames_bare_jumped_leaf\n"
        "local_function frames_bare_jumped_framed\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        "push %rbx\n"
        "sub $24, %rsp\n"
        "lea frames_spin(%rip), %rax\n"
        "mov %rax, 8(%rsp)\n"
        "mov $2000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "add $24, %rsp\n"
        "pop %rbx\n"
        "pop %rbp\n"
        "ret\n"
        ".size frames_bare_jumped_framed, . - frames_bare_jumped_framed\n"
        /* Ends in a jump through a register instead of a return. */
        "function frames_bare_goes_on\n"
        "push %r14\n"
        "push %rbx\n"
        "push %rax\n"
        "mov $2000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "lea frames_bare_jumped_leaf(%rip), %rax\n"
        "add $8, %rsp\n"
        "pop %rbx\n"
        "pop %r14\n"
        "jmp *%rax\n"
        ".size frames_bare_goes_on, . - frames_bare_goes_on\n"
        /* Jumps through a table, and ends with a call that does not return. */
        "function frames_bare_switch\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        "push %rbx\n"
        "push %rax\n"
        "rdtsc\n"
        "and $1, %eax\n"
        "lea 4f(%rip), %rcx\n"
        "movslq (%rcx,%rax,4), %rax\n"
        "add %rcx, %rax\n"
        "jmp *%rax\n"
        "2: mov $2000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "jmp 5f\n"
        ".balign 16\n"
        "3: mov $2000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "5: add $8, %rsp\n"
        "pop %rbx\n"
        "pop %rbp\n"
        "ret\n"
        "call abort\n"
        ".size frames_bare_switch, . - frames_bare_switch\n"
        ".section .rodata\n"
        ".balign 4\n"
        "4: .long 2b - 4b, 3b - 4b\n"
        ".text\n"
        /* For half of the time, the frame can only be found through rbx: its size was in rax. */
        "function frames_bare_lost\n"
        "push %rbx\n"
        "mov $2000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "mov $160, %eax\n"
        "mov %rsp, %rbx\n"
        "sub %rax, %rsp\n"
        "mov $2000, %ecx\n"
        "1: dec %ecx\n"
        "jnz 1b\n"
        "mov %rbx, %rsp\n"
        "pop %rbx\n"
        "ret\n"
        ".size frames_bare_lost, . - frames_bare_lost\n"
        /* Calls two functions from one call site. The callee of the first function leaves its return address in a part
         * of the stack that the second function allocates but never writes. */
        "function frames_left_over\n"
        ".cfi_startproc\n"
        "push %rbx\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset rbx, -16\n"
        "lea frames_former(%rip), %rbx\n"
        "1: call *%rbx\n"
        "lea frames_latter(%rip), %rax\n"
        "cmp %rax, %rbx\n"
        "mov %rax, %rbx\n"
        "jne 1b\n"
        "pop %rbx\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size frames_left_over, . - frames_left_over\n"
        "local_function frames_former\n"
        ".cfi_startproc\n"
        "sub $40, %rsp\n"
        ".cfi_def_cfa_offset 48\n"
        "call frames_bare_leaf\n"
        "add $40, %rsp\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size frames_former, . - frames_former\n"
        "local_function frames_latter\n"
        ".cfi_startproc\n"
        "sub $120, %rsp\n"
        ".cfi_def_cfa_offset 128\n"
        "call frames_bare_lost\n"
        "add $120, %rsp\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size frames_latter, . - frames_latter\n");

/* void (const volatile int *stop, void (*function)(const volatile int *)) */
static const uint8_t made_framed[] = {
    0x55,                         /* push %rbp */
    0x48, 0x89, 0xe5,             /* mov %rsp, %rbp */
    0x48, 0x83, 0xec, 0x20,       /* sub $32, %rsp */
    0xe8, 0x02, 0x00, 0x00, 0x00, /* call 1f */
    0xc9,                         /* leave */
    0xc3,                         /* ret */
    0x55,                         /* 1: push %rbp */
    0x48, 0x89, 0xe5,             /* mov %rsp, %rbp */
    0xff, 0xd6,                   /* call *%rsi */
    0x5d,                         /* pop %rbp */
    0xc3,                         /* ret */
};
static const uint8_t made_unframed[] = {
    0x48, 0x83, 0xec, 0x18, /* sub $24, %rsp */
    0xff, 0xd6,             /* call *%rsi */
    0x48, 0x83, 0xc4, 0x18, /* add $24, %rsp */
    0xc3,                   /* ret */
};
static const uint8_t made_spin[] = {
    0x55,                         /* push %rbp */
    0x48, 0x89, 0xe5,             /* mov %rsp, %rbp */
    0xe8, 0x02, 0x00, 0x00, 0x00, /* call 2f: a direct call shows where the function begins */
    0x5d,                         /* pop %rbp */
    0xc3,                         /* ret */
    0xb9, 0xf4, 0x01, 0x00, 0x00, /* 2: mov $500, %ecx */
    0xff, 0xc9,                   /* 3: dec %ecx */
    0x75, 0xfc,                   /* jnz 3b */
    0x55,                         /* push %rbp */
    0x48, 0x89, 0xe5,             /* mov %rsp, %rbp */
    0xb9, 0xf4, 0x01, 0x00, 0x00, /* mov $500, %ecx */
    0xff, 0xc9,                   /* 4: dec %ecx */
    0x75, 0xfc,                   /* jnz 4b */
    0x5d,                         /* pop %rbp */
    0xc3,                         /* ret */
};

bool frames_can_be_made(void) { return true; }

#else

/* On other architectures these functions are compiled, with unwind information. */
void frames_expression(const volatile int *stop) { frames_spin(stop); }
void frames_bare_framed(const volatile int *stop) { frames_spin(stop); }
void frames_bare_unframed(const volatile int *stop) { frames_spin(stop); }
KEPT void frames_bare_sleep(const volatile int *stop) {
  struct timespec time = {.tv_nsec = 10000000};
  while (*stop == 0)
    nanosleep(&time, NULL);
}
KEPT void frames_bare_middle(const volatile int *stop) {
  frames_bare_sleep(stop);
  sink++;
}
KEPT void frames_bare_outer(const volatile int *stop) {
  frames_bare_middle(stop);
  sink++;
}
void frames_bare_leaf(const volatile int *stop) { frames_spin(stop); }
void frames_jumps_to_leaf(const volatile int *stop) { frames_spin(stop); }
void frames_jumps_to_framed(const volatile int *stop) { frames_spin(stop); }
void frames_bare_goes_on(const volatile int *stop) { frames_spin(stop); }
void frames_bare_switch(const volatile int *stop) { frames_spin(stop); }
void frames_bare_lost(const volatile int *stop) { frames_spin(stop); }
void frames_left_over(const volatile int *stop) { frames_spin(stop); }

static const uint8_t made_framed[1], made_unframed[1], made_spin[1];

bool frames_can_be_made(void) { return false; }

#endif

typedef void made(const volatile int *stop, void (*function)(const volatile int *));

/* Copies the function CODE, of LENGTH bytes, to anonymous memory. */
static made *make(const uint8_t *code, size_t length) {
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    abort();
  memcpy(memory, code, length);
  mprotect(memory, 4096, PROT_READ | PROT_EXEC);
  made *function;
  memcpy(&function, &memory, sizeof function);
  return function;
}

static void unmake(made *function) {
  void *memory;
  memcpy(&memory, &function, sizeof memory);
  munmap(memory, 4096);
}

KEPT void frames_made_framed(const volatile int *stop) {
  made *function = make(made_framed, sizeof made_framed);
  function(stop, frames_spin);
  unmake(function);
}

KEPT void frames_made_unframed(const volatile int *stop) {
  made *function = make(made_unframed, sizeof made_unframed);
  function(stop, frames_spin);
  unmake(function);
}

KEPT void frames_made_spin(const volatile int *stop) {
  made *function = make(made_spin, sizeof made_spin);
  while (*stop == 0)
    function(stop, frames_spin);
  unmake(function);
}
