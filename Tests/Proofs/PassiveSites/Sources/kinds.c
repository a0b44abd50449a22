/* A program with a stack for each kind of frame: kinds KIND. */
#define _GNU_SOURCE
#include "kinds.h"

#include "hooks.h"

#include <alloca.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>

volatile long kinds_sink;

void watch(const char *name, void *function, long index) {
  hook(HOOK_WATCH, (unsigned long)name, (unsigned long)function, (unsigned long)index, 0);
}

static void watch_range(const char *name, void *start, unsigned long bytes, long index) {
  hook(HOOK_WATCH_RANGE, (unsigned long)name, (unsigned long)start, (unsigned long)start + bytes, (unsigned long)index);
}

static void block(const char *name) { hook(HOOK_BLOCK, (unsigned long)name, 0, 0, 0); }

KEPT void kinds_inner(void) { kinds_sink++; }

KEPT static void wait_a_while(void) {
  struct timespec time = {0, 1000};
  nanosleep(&time, NULL);
  kinds_sink++;
}

/* Recorded in its prologue and its epilogue. */
KEPT static long framed(long a, long b, long c, long d, long e, long f) {
  volatile char room[300];
  room[a & 63] = (char)b;
  kinds_inner();
  long sum = a * b + c * d + e * f;
  kinds_inner();
  return sum + (a ^ d) * (b ^ e) + (c ^ f) + room[a & 63];
}

static void prologue(void) {
  watch("prologue-0", framed, 0);
  watch("prologue-1", framed, 1);
  watch("prologue-2", framed, 2);
  watch("prologue-4", framed, 4);
  watch("epilogue-4", framed, -4);
  watch("epilogue-2", framed, -2);
  watch("epilogue-1", framed, -1);
  kinds_sink += framed(1, 2, 3, 4, 5, 6) + framed(1, 2, 3, 4, 5, kinds_sink);
}

KEPT static long leaf(long a) {
  volatile long room[8];
  for (int index = 0; index < 8; index++)
    room[index] = a * index;
  return room[a & 7];
}

static void red_zone(void) {
  watch("leaf", leaf, 12);
  kinds_sink += leaf(kinds_sink & 3);
}

KEPT static long tail_called(long a, long b) {
  kinds_inner();
  return a + b;
}

KEPT static long tail(long a) {
  kinds_inner();
  return tail_called(a, a + 1);
}

static void tail_jump(void) {
  kinds_sink += tail(1);
  watch("tail-jump", tail, -9);
  watch("tail-jump-inner", kinds_inner, 0);
  kinds_sink += tail(kinds_sink);
  kinds_sink += tail(kinds_sink);
}

static jmp_buf back;

KEPT __attribute__((noreturn)) static void leave(void) {
  kinds_inner();
  longjmp(back, 1);
}

KEPT __attribute__((noreturn)) static void call_at_the_end(void) {
  kinds_sink++;
  leave();
}

static void call_at_end(void) {
  watch("call-at-end", kinds_inner, 1);
  if (setjmp(back) == 0)
    call_at_the_end();
  kinds_sink++;
}

KEPT static long with_alloca(long count) {
  char *room = alloca((size_t)count);
  room[0] = 1;
  kinds_sink += (long)room;
  wait_a_while();
  return room[0];
}

static void alloca_frame(void) {
  block("blocked-alloca");
  kinds_sink += with_alloca((kinds_sink & 31) + 100);
}

KEPT static long with_array(long count) {
  volatile char room[count];
  room[0] = 1;
  struct pollfd none = {-1, 0, 0};
  poll(&none, 1, 1);
  return room[0];
}

static void array_frame(void) {
  block("blocked-array");
  kinds_sink += with_array((kinds_sink & 31) + 200);
}

KEPT static long over_aligned(long a) {
  _Alignas(128) volatile char room[256];
  room[a & 7] = 1;
  wait_a_while();
  return room[a & 3];
}

static void aligned_frame(void) {
  block("blocked-aligned");
  kinds_sink += over_aligned(kinds_sink);
}

static void plain_blocked(void) {
  block("blocked");
  wait_a_while();
  kinds_sink++;
}

KEPT static long recurse(long depth) {
  long result = depth > 0 ? recurse(depth - 1) : (kinds_inner(), 1);
  return result + kinds_sink;
}

static void deep(void) {
  watch("deep", kinds_inner, 0);
  kinds_sink += recurse(700);
}

static void truncated(void) {
  hook(HOOK_COPY_BYTES, 600, 0, 0, 0);
  watch("copy-too-short", kinds_inner, 0);
  kinds_sink += recurse(60);
}

KEPT static void handle(int number) {
  (void)number;
  kinds_inner();
  kinds_sink++;
}

/* Raises SIGILL without a frame. */
void kinds_trap(void);

static void on_signal(const char *name, int flags) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
  sigaction(SIGILL, &action, NULL);
  watch(name, kinds_inner, 1);
  kinds_trap();
  kinds_sink++;
}

static void signal_frame(void) { on_signal("signal-frame", 0); }

static void alternate_stack(void) {
  static _Alignas(16) char room[64 << 10];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  sigaltstack(&stack, NULL);
  hook(HOOK_OTHER_STACK, (unsigned long)room, (unsigned long)room + sizeof room, 0, 0);
  on_signal("alternate-stack", SA_ONSTACK);
}

#define ENTERED(function)                                                                                              \
  void kinds_##function(void);                                                                                         \
  KEPT static void enter_##function(void) {                                                                            \
    kinds_##function();                                                                                                \
    kinds_sink++;                                                                                                      \
  }

ENTERED(bare_framed)
ENTERED(bare_unframed)
ENTERED(bare_leaf)
ENTERED(jumps_to_leaf)
ENTERED(jumps_to_framed)
ENTERED(bare_goes_on)
ENTERED(bare_switch)
ENTERED(bare_lost)
ENTERED(left_over)
ENTERED(through_stub)
void kinds_jumped_leaf(void), kinds_jumped_framed(void);

static void bare_framed(void) {
  watch("no-cfi-framed", kinds_inner, 1);
  enter_bare_framed();
}

static void bare_unframed(void) {
  watch("no-cfi-unframed", kinds_inner, 1);
  enter_bare_unframed();
}

static void bare_leaf(void) {
  watch("no-cfi-leaf", kinds_bare_leaf, 5);
  enter_bare_leaf();
}

static void jumped_leaf(void) {
  watch("no-cfi-jumped-leaf", kinds_jumped_leaf, 5);
  enter_jumps_to_leaf();
}

static void jumped_framed(void) {
  watch("no-cfi-jumped-framed", kinds_jumped_framed, 9);
  enter_jumps_to_framed();
}

static void goes_on(void) {
  watch("no-cfi-goes-on", kinds_bare_goes_on, 6);
  enter_bare_goes_on();
}

static void jump_table(void) {
  watch("no-cfi-jump-table", kinds_bare_switch, 16);
  enter_bare_switch();
}

static void joined(void) {
  watch("joined-1", kinds_bare_lost, 3);
  hook(HOOK_AFTER, (unsigned long)"joined-1", 0, 0, 0);
  watch("joined-2", kinds_bare_lost, 20);
  enter_bare_lost();
}

static void left_over(void) {
  watch("left-over-1", kinds_bare_leaf, 3);
  hook(HOOK_AFTER, (unsigned long)"left-over-1", 0, 0, 0);
  watch("left-over-2", kinds_bare_lost, 20);
  enter_left_over();
}

extern const char kinds_stub_return[];

/* Returns the PLT stub that the call before kinds_stub_return calls. */
static void *called_stub(void) {
  uintptr_t return_address = (uintptr_t)kinds_stub_return;
  int32_t word;
  memcpy(&word, (void *)(return_address - sizeof word), sizeof word);
#if defined(__x86_64__)
  return (void *)(return_address + (uintptr_t)(intptr_t)word);
#else
  return (void *)(return_address - 4 + (uintptr_t)(intptr_t)(((int32_t)((uint32_t)word << 6) >> 6) * 4));
#endif
}

static void stub(void) {
  watch("stub", called_stub(), 0);
  watch("stub-1", called_stub(), 1);
  enter_through_stub();
}

#if defined(__x86_64__)
static const uint8_t made_framed[] = {
    0x55,                         /* push %rbp */
    0x48, 0x89, 0xe5,             /* mov %rsp, %rbp */
    0x48, 0x83, 0xec, 0x20,       /* sub $32, %rsp */
    0xe8, 0x02, 0x00, 0x00, 0x00, /* call 1f */
    0xc9,                         /* leave */
    0xc3,                         /* ret */
    0x55,                         /* 1: push %rbp */
    0x48, 0x89, 0xe5,             /* mov %rsp, %rbp */
    0xff, 0xd7,                   /* call *%rdi */
    0x5d,                         /* pop %rbp */
    0xc3,                         /* ret */
};
static const uint8_t made_unframed[] = {
    0x48, 0x83, 0xec, 0x18, /* sub $24, %rsp */
    0xff, 0xd7,             /* call *%rdi */
    0x48, 0x83, 0xc4, 0x18, /* add $24, %rsp */
    0xc3,                   /* ret */
};
#else
static const uint32_t made_framed[] = {
    0xa9be7bfd, /* stp x29, x30, [sp, -32]! */
    0x910003fd, /* mov x29, sp */
    0x94000003, /* bl 1f */
    0xa8c27bfd, /* ldp x29, x30, [sp], 32 */
    0xd65f03c0, /* ret */
    0xa9bf7bfd, /* 1: stp x29, x30, [sp, -16]! */
    0x910003fd, /* mov x29, sp */
    0xd63f0000, /* blr x0 */
    0xa8c17bfd, /* ldp x29, x30, [sp], 16 */
    0xd65f03c0, /* ret */
};
static const uint32_t made_unframed[] = {
    0xd10083ff, /* sub sp, sp, 32 */
    0xf9000bfe, /* str x30, [sp, 16] */
    0xd63f0000, /* blr x0 */
    0xf9400bfe, /* ldr x30, [sp, 16] */
    0x910083ff, /* add sp, sp, 32 */
    0xd65f03c0, /* ret */
};
#endif

typedef void made(void (*function)(void));

KEPT static void run_made(const void *code, size_t length, bool is_reported) {
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  made *function;
  memcpy(memory, code, length);
  mprotect(memory, 4096, PROT_READ | PROT_EXEC);
  __builtin___clear_cache(memory, (char *)memory + length);
  if (is_reported)
    hook(HOOK_MEMORY, (unsigned long)memory, 4096, 0, 0);
  memcpy(&function, &memory, sizeof function);
  function(kinds_inner);
  kinds_sink++;
}

static void made_frame(void) {
  watch("made-framed", kinds_inner, 1);
  run_made(made_framed, sizeof made_framed, true);
}

static void made_without_frame(void) {
  watch("made-unframed", kinds_inner, 1);
  run_made(made_unframed, sizeof made_unframed, true);
}

static void gone(void) {
  watch("gone", kinds_inner, 1);
  run_made(made_framed, sizeof made_framed, false);
}

static void in_vdso(void) {
  unsigned long start = getauxval(AT_SYSINFO_EHDR);
  struct timespec time;
  if (start == 0)
    return;
  watch_range("vdso-4", (void *)start, 16384, 4);
  watch_range("vdso-20", (void *)start, 16384, 20);
  clock_gettime(CLOCK_MONOTONIC, &time);
  kinds_sink += time.tv_nsec;
}

#if defined(__x86_64__)
ENTERED(expression)

static void expression(void) {
  watch("expression", kinds_inner, 1);
  enter_expression();
}
#endif

#if defined(__clang__)
void kinds_async(void *context);

/* The frame of an async Swift function: the frame record is marked, and the async context lies before the record. */
static void async(void) {
  char context[64] = {0};
  watch("async", kinds_inner, 1);
  kinds_async(context);
  kinds_sink++;
}
#endif

/* In kinds.cpp, which not all programs link. */
__attribute__((weak)) void kinds_exception(void);

static void exception(void) {
  if (kinds_exception)
    kinds_exception();
}

/* Runs most kinds, one after the other, and compares at every instruction. */
static void all(void);

static const struct {
  const char *name;
  void (*run)(void);
} kinds[] = {
    {"prologue", prologue},
    {"leaf", red_zone},
    {"tail", tail_jump},
    {"end", call_at_end},
    {"alloca", alloca_frame},
    {"array", array_frame},
    {"aligned", aligned_frame},
    {"blocked", plain_blocked},
    {"deep", deep},
    {"truncated", truncated},
    {"stub", stub},
    {"bare-framed", bare_framed},
    {"bare-unframed", bare_unframed},
    {"bare-leaf", bare_leaf},
    {"jumped-leaf", jumped_leaf},
    {"jumped-framed", jumped_framed},
    {"goes-on", goes_on},
    {"jump-table", jump_table},
    {"made-framed", made_frame},
    {"made-unframed", made_without_frame},
    {"vdso", in_vdso},
#if defined(__x86_64__)
    {"expression", expression},
#endif
#if defined(__clang__)
    {"async", async},
#endif
    {"exception", exception},
    {"joined", joined},
    {"left-over", left_over},
    {"signal", signal_frame},
    {"gone", gone},
    {"alternate", alternate_stack},
    {"all", all},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void all(void) {
  hook(HOOK_SURVEY, 1, 0, 0, 0);
  for (int index = 0; strcmp(kinds[index].name, "signal") != 0; index++) {
    if (strcmp(kinds[index].name, "deep") == 0)
      kinds_sink += recurse(20);
    else if (strcmp(kinds[index].name, "truncated") != 0 && strcmp(kinds[index].name, "end") != 0)
      kinds[index].run();
  }
  hook(HOOK_SURVEY, 0, 0, 0, 0);
}

int main(int count, char **arguments) {
  announce();
  for (int index = 0; index < KINDS && count == 2; index++)
    if (strcmp(kinds[index].name, arguments[1]) == 0)
      kinds[index].run();
  return 0;
}
