#define _GNU_SOURCE
#include "kernel_waits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, STACK_BYTES = 256 << 10 };

__attribute__((noinline)) void store_into_frozen_file(volatile char *place) {
  *place = 1;
  __asm__ volatile("");
}

static int faults = -1;
static int wait_descriptor;
static void (*mark_work)(int place, bool begins);
static _Atomic uint64_t missing_pages[UNANSWERED_PAGES_MAX];

/* Uses several pages of stack, one of which is missing. */
__attribute__((noinline)) static void wait_above_missing_page(int place) {
  volatile char room[4 * PAGE];
  char byte;
  uint64_t page = ((uint64_t)(uintptr_t)room + PAGE) & ~(uint64_t)(PAGE - 1);
  missing_pages[place] = page;
  /* The next access to the page faults, and waits for the answer. */
  madvise((void *)(uintptr_t)page, PAGE, MADV_DONTNEED);
  struct uffdio_register range = {.range = {.start = page, .len = PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (ioctl(faults, UFFDIO_REGISTER, &range) != 0)
    perror("UFFDIO_REGISTER");
  mark_work(place, true);
  ssize_t count = read(wait_descriptor, &byte, 1);
  (void)count;
  mark_work(place, false);
  __asm__ volatile("" : : "r"(room) : "memory");
}

static void *run(void *place) {
  wait_above_missing_page((int)(intptr_t)place);
  return NULL;
}

static int start_above_missing_page(int place) {
  pthread_attr_t attributes;
  pthread_t thread;
  void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED)
    return errno;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, STACK_BYTES);
  int error = pthread_create(&thread, &attributes, run, (void *)(intptr_t)place);
  pthread_attr_destroy(&attributes);
  return error;
}

int unanswered_pages_start(int count, int descriptor, void (*mark)(int place, bool begins)) {
  static struct uffdio_api api = {.api = UFFD_API};
  wait_descriptor = descriptor;
  mark_work = mark;
  faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0)
    return errno;
  int error = 0;
  for (int place = 0; place < count && error == 0; place++)
    error = start_above_missing_page(place);
  return error;
}

void unanswered_pages_answer(void) {
  for (int place = 0; place < UNANSWERED_PAGES_MAX && missing_pages[place] != 0; place++) {
    struct uffdio_zeropage answer = {.range = {.start = missing_pages[place], .len = PAGE}};
    if (ioctl(faults, UFFDIO_ZEROPAGE, &answer) != 0)
      perror("UFFDIO_ZEROPAGE");
  }
}

void use_small_signal_stack(void) {
  uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t small = {.ss_sp = pages + PAGE, .ss_size = 2048};
  if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE) != 0 ||
      sigaltstack(&small, NULL) != 0)
    perror("sigaltstack");
}

#if defined(__x86_64__)

/* The lowest address of the main thread's stack, from /proc/self/maps. */
static uint64_t lowest_of_stack(void) {
  char line[512];
  unsigned long start = 0;
  int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  bool is_found = false;
  while (!is_found && read(descriptor, line + length, 1) == 1) {
    if (line[length] != '\n') {
      length += length < sizeof line - 2;
      continue;
    }
    line[length] = '\0';
    is_found = strstr(line, "[stack]") != NULL;
    sscanf(line, "%lx", &start);
    length = 0;
  }
  close(descriptor);
  return start;
}

__attribute__((noinline)) void sleep_at_lowest_page(int milliseconds) {
  struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L};
  uint64_t low = lowest_of_stack();
  long result;
  /* The unwinder finds the frame by the frame pointer, independent of the stack pointer. */
  __asm__ volatile("movq %%rsp, %%rbx\n\t"
                   "movq %[low], %%rsp\n\t"
                   "syscall\n\t"
                   "movq %%rbx, %%rsp\n\t"
                   : "=a"(result)
                   : "a"(SYS_nanosleep), "D"(&time), "S"(0), [low] "r"(low + 64)
                   : "rbx", "rcx", "r11", "memory");
  (void)result;
}

#else

void sleep_at_lowest_page(int milliseconds) {
  struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

#endif
