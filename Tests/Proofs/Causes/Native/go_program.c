/* Functions with the names and files of a Go program: of its package main, and of Go's runtime. */
#include "cause_work.h"
#include "threads.h"

NOT_INLINED void cause_go_copy(uint64_t end) __asm__("runtime.memmove");
NOT_INLINED void cause_go_grow(uint64_t end) __asm__("runtime.growslice");

#line 30 "/usr/local/go/src/runtime/memmove_amd64.s"
void cause_go_copy(uint64_t end) {
  uint64_t sum = 1;
  while (cause_now() < end) {
    for (int i = 0; i < 20000; i++)
      sum = sum * 6364136223846793005u + (sum >> 23);
  }
  cause_sink += sum;
}

#line 60 "/usr/local/go/src/runtime/slice.go"
void cause_go_grow(uint64_t end) {
  cause_go_copy(end);
  cause_sink += 1;
}

#line 10 "/src/shop/main.go"
NOT_INLINED void pack_in_go(uint64_t end) {
  cause_go_grow(end);
  cause_sink += 1;
}
