#define _GNU_SOURCE
#include "native_work.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local uint64_t deadline;
static _Thread_local volatile uint64_t sink;

uint64_t native_thread_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void native_set_deadline(uint64_t value) { deadline = value; }

uint64_t native_deadline(void) { return deadline; }

struct good {
  int price;
  int weight;
  char name[24];
};

static int compare_goods(const void *left, const void *right) {
  const struct good *a = left, *b = right;
  int names = strcmp(a->name, b->name);
  if (a->price / 16 != b->price / 16)
    return a->price < b->price ? -1 : 1;
  return names != 0 ? names : a->weight - b->weight;
}

__attribute__((noinline)) void rank_goods(uint64_t end) {
  struct good goods[1000];
  uint32_t random = 1;
  while (native_now() < end) {
    for (int i = 0; i < 1000; i++) {
      random = random * 1664525u + 1013904223u;
      goods[i].price = (int)(random >> 20);
      goods[i].weight = i;
      memset(goods[i].name, 'a' + (int)(random >> 28), sizeof goods[i].name - 1);
      goods[i].name[sizeof goods[i].name - 1] = 0;
    }
    qsort(goods, 1000, sizeof goods[0], compare_goods);
    sink += (uint64_t)goods[0].price;
  }
}

__attribute__((noinline)) void copy_pages(uint64_t end) {
  enum { size = 1 << 20 };
  char *from = malloc(size), *to = malloc(size);
  memset(from, 1, size);
  while (native_now() < end) {
    for (int i = 0; i < 8; i++) {
      memcpy(to, from, size);
      from[i] = to[size - 1];
    }
  }
  sink += (uint64_t)to[0];
  free(from);
  free(to);
}

__attribute__((noinline)) void swift_parse_prices(uint64_t end) {
  static const char text[] = "12.50;7.99;1300.00;0.05;88.20;17.00;";
  while (native_now() < end) {
    uint64_t total = 0;
    for (int round = 0; round < 1000; round++) {
      uint64_t cents = 0;
      for (const char *next = text; *next; next++) {
        if (*next == ';') {
          total += cents;
          cents = 0;
        } else if (*next != '.') {
          cents = cents * 10 + (uint64_t)(*next - '0') + (total & 1);
        }
      }
    }
    sink += total;
  }
}

__attribute__((noinline)) void poll_nothing(uint64_t end) {
  uint64_t now;
  while ((now = native_now()) < end)
    poll(NULL, 0, (int)((end - now + 999999) / 1000000));
}
