#define _GNU_SOURCE
#include "marked_stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* The complement of the mark: a search for the mark must have no copy on its own stack. */
static const uint64_t opposite = UINT64_C(0x5ec3e7a11ce0f00d);

enum { SHALLOW_WORDS = 1 << 10, DEEP_WORDS = 1 << 13, WORDS_WANTED = 64 };

struct marked_stack {
  enum marked_way way;
  void (*mark)(bool begins, void *context);
  void *context;
  pthread_t thread;
  int ends[2]; /* of the pipe from which a sleeping thread reads */
  _Atomic uint64_t address;
  atomic_bool is_over;
};

__attribute__((noinline)) static void run(struct marked_stack *self, volatile uint64_t *room, size_t words) {
  for (size_t at = 0; at < words; at++)
    room[at] = ~opposite;
  atomic_store(&self->address, (uint64_t)(uintptr_t)room);
  self->mark(true, self->context);
  char byte;
  if (self->way == MARKED_ASLEEP)
    while (read(self->ends[0], &byte, 1) < 0)
      continue;
  while (!atomic_load_explicit(&self->is_over, memory_order_relaxed))
    continue;
  self->mark(false, self->context);
  for (size_t at = 0; at < words; at++)
    room[at] = 0;
}

static void *start_deep(void *self) {
  volatile uint64_t room[DEEP_WORDS];
  run(self, room, DEEP_WORDS);
  return NULL;
}

static void *start_shallow(void *self) {
  volatile uint64_t room[SHALLOW_WORDS];
  run(self, room, SHALLOW_WORDS);
  return NULL;
}

struct marked_stack *marked_stack_start(enum marked_way way, void (*mark)(bool begins, void *context), void *context) {
  struct marked_stack *self = calloc(1, sizeof *self);
  if (!self || pipe(self->ends) != 0)
    abort();
  self->way = way;
  self->mark = mark;
  self->context = context;
  if (pthread_create(&self->thread, NULL, way == MARKED_DEEP ? start_deep : start_shallow, self) != 0)
    return NULL;
  while (atomic_load(&self->address) == 0)
    usleep(1000);
  return self;
}

uint64_t marked_stack_address(const struct marked_stack *stack) { return atomic_load(&stack->address); }

void marked_stack_end(struct marked_stack *stack) {
  atomic_store(&stack->is_over, true);
  if (write(stack->ends[1], "x", 1) != 1)
    abort();
  pthread_join(stack->thread, NULL);
  close(stack->ends[0]);
  close(stack->ends[1]);
  free(stack);
}

bool marked_stack_is_in(const uint8_t *bytes, size_t length) {
  const volatile uint64_t *words = (const volatile uint64_t *)(const void *)bytes;
  size_t found = 0;
  for (size_t at = 0; at < length / sizeof *words; at++) {
    found = (words[at] ^ opposite) == UINT64_MAX ? found + 1 : 0;
    if (found == WORDS_WANTED)
      return true;
  }
  return false;
}
