/* Prints a file of random call chains that end in a blocking call: generate c|c++|swift SEED CHAINS [bare]. With
 * "bare", the chains go through code without unwind information. */
#include "generate.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* SplitMix64 (Steele, Lea and Flood, 2014): the same numbers on every C library. */
int below(int bound) {
  uint64_t mixed = state += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  return (int)((mixed ^ mixed >> 31) % (uint64_t)bound);
}

const char *one_of(const char *const *choices, int count) { return choices[below(count)]; }

int happens(int percent) { return below(100) < percent; }

void print_call(const struct level *level, const char *callee) {
  printf("%s(", callee);
  for (int index = 0; index < level->callee_parameters; index++)
    if (index < level->parameters)
      printf("%sp%d + %d", index ? ", " : "", index, below(3));
    else
      printf("%s%d", index ? ", " : "", below(100));
  printf(")");
}

void print_filled(const struct level *level, const char *text) {
  struct level outside = *level;
  outside.parameters = 0;
  for (; *text; text++) {
    if (strncmp(text, "CALL", 4) == 0) {
      print_call(&outside, level->callee);
      text += 3;
    } else if (strncmp(text, "SELF", 4) == 0) {
      printf("s%d_%d(", level->chain, level->level);
      for (int index = 0; index < level->parameters; index++)
        printf("%sp%d", index ? ", " : "", index);
      printf(")");
      text += 3;
    } else if (strncmp(text, "%1$d", 4) == 0 || strncmp(text, "%2$d", 4) == 0) {
      printf("%d", text[1] == '1' ? level->chain : level->level);
      text += 3;
    } else {
      putchar(*text);
    }
  }
}

static int has_bare_ways;

const char *a_bare_way(void) {
  static const char *const ways[] = {"framed",        "unframed", "kept",    "thunk",         "made_framed",
                                     "made_unframed", "closure",  "flagged", "flagged_alloca"};
  return has_bare_ways && happens(40) ? one_of(ways, sizeof ways / sizeof ways[0]) : "";
}

int main(int count, char **arguments) {
  has_bare_ways = count == 5 && strcmp(arguments[4], "bare") == 0;
  if (count != 4 && !has_bare_ways) {
    fprintf(stderr, "usage: generate c|c++|swift SEED CHAINS [bare]\n");
    return 2;
  }
  state = strtoull(arguments[2], NULL, 10);
  int chains = atoi(arguments[3]);
  if (strcmp(arguments[1], "swift") == 0)
    generate_swift(chains);
  else
    generate_c(chains, strcmp(arguments[1], "c++") == 0);
  return 0;
}
