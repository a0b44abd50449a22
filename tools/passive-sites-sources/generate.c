/* Prints a C file of random call chains that end in a blocking call: generate SEED CHAINS. */
#include <stdio.h>
#include <stdlib.h>

static const char *const leaves[] = {"read", "semaphore", "mutex",  "futex",  "condition", "poll",
                                     "nanosleep", "epoll", "select", "usleep", "flock",     "wait"};

static int below(int bound) { return (int)(random() % bound); }

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: generate SEED CHAINS\n");
    return 2;
  }
  srandom((unsigned)atol(arguments[1]));
  int chains = atoi(arguments[2]);
  printf("#include \"sites.h\"\n");
  for (int chain = 0; chain < chains; chain++) {
    int depth = 1 + below(6);
    for (int level = depth - 1; level >= 0; level--) {
      char callee[64], call[128];
      if (level + 1 < depth)
        snprintf(callee, sizeof callee, "s%d_%d", chain, level + 1);
      else
        snprintf(callee, sizeof callee, "block_%s", leaves[below(12)]);
      int kind = below(8);
      if (level + 1 < depth && kind == 3) {
        printf("static site *volatile p%d_%d = %s;\n", chain, level, callee);
        snprintf(callee, sizeof callee, "p%d_%d", chain, level);
      }
      snprintf(call, sizeof call, level + 1 < depth ? "%s(a + 1, b, c, d, e, f, g, h)" : "%s()", callee);
      printf("__attribute__((noinline)) %sint s%d_%d(int a, int b, int c, int d, int e, int f, int g, int h) {\n",
             level > 0 && below(2) ? "static " : "", chain, level);
      printf("  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;\n");
      static const int sizes[] = {100, 1000, 5000};
      if (kind == 0)
        printf("  volatile char large[%d];\n  large[a %% 100] = 1;\n  sink += large[a %% 100];\n", sizes[below(3)]);
      if (kind == 1)
        printf("  char *taken = __builtin_alloca((unsigned)(a & 63) + %d);\n  taken[0] = 1;\n  escape(taken);\n",
               below(2) ? 16 : 100);
      if (kind == 2)
        printf("  volatile char left[600];\n  left[0] = 1;\n  churn(a & 7);\n  sink += left[0];\n");
      if (kind == 4)
        printf("  long v = a * 3L, w = b * 5L, x = c * 7L, y = d * 9L, z = e * 11L;\n  escape(&v);\n");
      printf("  int result = %s;\n", call);
      printf(kind == 4 ? "  sink += v + w + x + y + z;\n" : "  sink += result;\n");
      printf("  return result + 1;\n}\n");
    }
  }
  printf("site *const sites[] = {");
  for (int chain = 0; chain < chains; chain++)
    printf("s%d_0, ", chain);
  printf("};\nconst int site_count = %d;\n", chains);
  return 0;
}
