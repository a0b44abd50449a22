#define _GNU_SOURCE
#include "cause_work.h"
#include "threads.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

NOT_INLINED void price_baskets(uint64_t end) {
  uint64_t total = 1;
  while (cause_now() < end) {
    for (int i = 0; i < 20000; i++)
      total = (total * 6364136223846793005u + 1442695040888963407u) ^ (total >> 29);
    cause_sink += total;
  }
}

NOT_INLINED void allocate_buffers(uint64_t end) {
  enum { COUNT = 2000 };
  static char *buffers[COUNT];
  while (cause_now() < end) {
    /* Exceeds a thread's cache. The order of frees leaves holes. */
    for (int i = 0; i < COUNT; i++) {
      buffers[i] = malloc(24 + (size_t)(i * 37 % 900));
      buffers[i][0] = (char)i;
    }
    for (int i = 0; i < COUNT; i++)
      free(buffers[i * 7 % COUNT]);
    cause_sink += 1;
  }
}

NOT_INLINED void format_receipts(uint64_t end) {
  char line[200];
  while (cause_now() < end) {
    for (int i = 0; i < 200; i++) {
      snprintf(line, sizeof line, "%-20s %6d x %8.2f = %10.2f", "green tea", i, i * 1.25, i * i * 1.25);
      cause_sink += (uint64_t)line[25];
    }
  }
}

struct product {
  int price;
  int weight;
  char name[24];
};

static int compare_products(const void *left, const void *right) {
  const struct product *a = left, *b = right;
  int names = strcmp(a->name, b->name);
  return names != 0 ? names : a->price != b->price ? (a->price < b->price ? -1 : 1) : a->weight - b->weight;
}

NOT_INLINED void rank_products(uint64_t end) {
  static struct product products[4000];
  uint32_t random = 1;
  while (cause_now() < end) {
    for (int i = 0; i < 4000; i++) {
      random = random * 1664525u + 1013904223u;
      products[i].price = (int)(random >> 12);
      products[i].weight = i;
      memset(products[i].name, 'a' + (int)(random >> 30), sizeof products[i].name - 1);
    }
    qsort(products, 4000, sizeof products[0], compare_products);
    cause_sink += (uint64_t)products[0].price;
  }
}

static int compare_suppliers(const void *left, const void *right) {
  uint64_t value = *(const uint32_t *)left;
  for (int i = 0; i < 2000; i++)
    value = (value * 6364136223846793005u + *(const uint32_t *)right) ^ (value >> 29);
  cause_sink += value;
  return *(const uint32_t *)left < *(const uint32_t *)right ? -1 : 1;
}

NOT_INLINED void rank_suppliers(uint64_t end) {
  static uint32_t suppliers[500];
  uint32_t random = 1;
  while (cause_now() < end) {
    for (int i = 0; i < 500; i++)
      suppliers[i] = random = random * 1664525u + 1013904223u;
    qsort(suppliers, 500, sizeof suppliers[0], compare_suppliers);
    cause_sink += suppliers[0];
  }
}

/* Functions of LuaJIT, whose header might be missing. Without Lua's libraries, LuaJIT interprets. */
static struct {
  void *state;
  int (*load)(void *, const char *);
  int (*call)(void *, int, int, int);
} lua;

bool cause_open_script(void) {
  void *library = dlopen("libluajit-5.1.so.2", RTLD_NOW);
  void *(*open_state)(void) = library ? (void *(*)(void))dlsym(library, "luaL_newstate") : NULL;
  if (open_state == NULL)
    return false;
  lua.load = (int (*)(void *, const char *))dlsym(library, "luaL_loadstring");
  lua.call = (int (*)(void *, int, int, int))dlsym(library, "lua_pcall");
  lua.state = open_state();
  return lua.state != NULL && lua.load != NULL && lua.call != NULL;
}

NOT_INLINED void run_discount_script(uint64_t end) {
  while (cause_now() < end) {
    if (lua.load(lua.state, "local sum = 0 for i = 1, 1e7 do sum = sum + i * 0.5 - i * 0.25 end") != 0)
      return;
    cause_sink += (uint64_t)lua.call(lua.state, 0, 0, 0);
  }
}

NOT_INLINED void compress_archive(uint64_t end) {
  enum { BYTES = 1 << 16 };
  static unsigned char text[BYTES], packed[2 * BYTES];
  uint32_t random = 1;
  for (int i = 0; i < BYTES; i++) {
    random = random * 1664525u + 1013904223u;
    text[i] = (unsigned char)('a' + (random >> 28));
  }
  while (cause_now() < end) {
    uLongf length = sizeof packed;
    compress2(packed, &length, text, BYTES, 9);
    cause_sink += length;
  }
}

static atomic_int is_delivered;

static void *deliver(void *argument) {
  cause_begun();
  usleep(cause_argument(argument) * 1000);
  atomic_store(&is_delivered, 1);
  return NULL;
}

void begin_delivery(unsigned milliseconds) { cause_thread("courier", deliver, milliseconds); }

NOT_INLINED void spin_for_delivery(void) {
  while (!atomic_load_explicit(&is_delivered, memory_order_acquire))
    ;
  cause_sink += 1;
}

struct entry {
  struct entry *next;
  char note[40];
};

static struct entry *history;

/* Builds a list of COUNT entries in a random order of addresses. */
static struct entry *chain(size_t count) {
  struct entry **all = malloc(count * sizeof *all), *first = NULL;
  uint64_t random = 1;
  for (size_t i = 0; i < count; i++)
    all[i] = malloc(sizeof **all);
  for (size_t i = count; i > 0; i--) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t place = (size_t)(random >> 33) % i;
    struct entry *taken = all[place];
    all[place] = all[i - 1];
    taken->note[0] = (char)random;
    taken->next = first;
    first = taken;
  }
  free(all);
  return first;
}

NOT_INLINED void free_history(uint64_t end) {
  while (history != NULL && cause_now() < end) {
    for (int i = 0; i < 1000 && history != NULL; i++) {
      struct entry *next = history->next;
      free(history);
      history = next;
    }
  }
  cause_sink += 1;
}

void build_history(unsigned milliseconds) {
  enum { TRIAL = 500000, MOST = 20000000 };
  history = chain(TRIAL);
  uint64_t begin = cause_processor_time();
  free_history(UINT64_MAX);
  uint64_t count = (uint64_t)TRIAL * milliseconds * 1000000u / (cause_processor_time() - begin + 1);
  history = chain(count < MOST ? (size_t)count : MOST);
}

/* Short jobs. */
NOT_INLINED void handle_message(void) {
  usleep(10000);
  cause_sink += 1;
}

NOT_INLINED void store_measurement(void) {
  uint64_t end = cause_now() + 10000000, value = 1;
  while (cause_now() < end) {
    for (int i = 0; i < 1000; i++)
      value = value * 2862933555777941757u + 3037000493u;
  }
  cause_sink += value;
}
