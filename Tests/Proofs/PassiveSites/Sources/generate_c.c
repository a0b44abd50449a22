/* Call chains in C and C++. */
#include "generate.h"

#include <stdio.h>
#include <string.h>

static const char *const leaves[] = {"read",      "semaphore", "mutex",  "futex",  "condition", "poll",
                                     "nanosleep", "epoll",     "select", "usleep", "flock",     "wait"};

static void print_types(int count) {
  printf("(");
  for (int index = 0; index < count; index++)
    printf("%sint", index ? ", " : "");
  printf("%s)", count ? "" : "void");
}

static void print_head(const struct level *level) {
  printf("%s__attribute__((noinline)) int s%d_%d(", level->level > 0 && below(2) ? "static " : "", level->chain,
         level->level);
  for (int index = 0; index < level->parameters; index++)
    printf("%sint p%d", index ? ", " : "", index);
  printf("%s) {\n", level->parameters ? "" : "void");
  for (int index = 0; index < level->parameters; index++)
    printf("  (void)p%d;\n", index);
  printf("  int a = %s;\n  int result = 0;\n", level->parameters ? "p0" : "(int)sink & 63");
}

/* Prints variables in the function's frame. Returns the code that uses them after the call. */
static const char *print_frame(void) {
  static const int sizes[] = {100, 1000, 5000}, alignments[] = {32, 64, 128};
  int size = below(2) ? 16 : 100;
  switch (below(12)) {
  case 0:
    printf("  volatile char large[%d];\n  large[a & 63] = 1;\n  sink += large[a & 63];\n", sizes[below(3)]);
    return "";
  case 1:
    printf("  char *taken = (char *)__builtin_alloca((unsigned)(a & 63) + %d);\n  taken[0] = 1;\n  "
           "escape(taken);\n",
           size);
    return below(2) ? "  sink += taken[0];\n" : "";
  case 2:
    printf("  char vla[(a & 31) + %d];\n  vla[0] = 1;\n  escape(vla);\n", size);
    return below(2) ? "  sink += vla[0];\n" : "";
  case 3:
    printf("  ALIGNED(%d) volatile char aligned[%d];\n  aligned[a & 7] = 1;\n  escape((void *)aligned);\n",
           alignments[below(3)], size);
    return below(2) ? "  sink += aligned[0];\n" : "";
  case 4:
    printf("  long v = a * 3L, w = a * 5L, x = a * 7L, y = a * 9L, z = a * 11L;\n  escape(&v);\n");
    return "  sink += v + w + x + y + z;\n";
  }
  return "";
}

/* Prints calls that leave data below the function's frame. */
static void print_left_over(const struct level *level) {
  if (happens(15))
    printf("  volatile char left[%d];\n  left[0] = 1;\n  churn(a & 7);\n  sink += left[0];\n", 100 + below(600));
  if (happens(15))
    printf("  if (!dry)\n    deeper(%d, dry%d_%d, (void *)(long)a);\n", below(12), level->chain, level->level);
}

/* Prints both the frame and the left-over data, in random order. Left-over data can thus end up in the frame. */
static const char *print_frame_and_left_over(const struct level *level, int has_frame) {
  int before = happens(50);
  if (before)
    print_left_over(level);
  const char *kept = has_frame ? print_frame() : "";
  if (!before)
    print_left_over(level);
  return kept;
}

/* Prints a function that calls LEVEL's callee for its caller. */
static void print_helper(const struct level *level, const char *result_and_name, const char *parameters) {
  printf("%s(%s) {\n  int result = 1;\n", result_and_name, parameters);
  struct level outside = *level;
  outside.parameters = 0;
  printf("  result += ");
  print_call(&outside, level->callee);
  printf(";\n  sink += result;\n  return result;\n}\n");
}

enum shape { DIRECT, POINTER, TABLE, TAIL, RECURSION, COLD, SWITCH, LOOP, BY_VALUE, CALLBACK, JUMP };
static const enum shape usual[] = {DIRECT,    DIRECT, DIRECT, DIRECT, DIRECT, POINTER,  TABLE,    TAIL,
                                   RECURSION, COLD,   COLD,   SWITCH, LOOP,   BY_VALUE, CALLBACK, JUMP};

/* Prints the declarations that a call of SHAPE needs before the function. */
static void print_before(const struct level *level, enum shape shape) {
  int chain = level->chain, number = level->level;
  char name[128];
  if (shape == POINTER || shape == TABLE) {
    printf("typedef int y%d_%d", chain, number);
    print_types(level->callee_parameters);
    printf(";\n");
  }
  if (shape == POINTER)
    printf("static y%d_%d *volatile q%d_%d = %s;\n", chain, number, chain, number, level->callee);
  if (shape == TABLE) {
    printf("static struct { long other; y%d_%d *call; } t%d_%d = {1, %s}, *volatile q%d_%d = &t%d_%d;\n", chain, number,
           chain, number, level->callee, chain, number, chain, number);
  }
  if (shape == BY_VALUE) {
    snprintf(name, sizeof name, "static __attribute__((noinline)) int w%d_%d", chain, number);
    print_helper(level, name, "struct large large, double d, ...");
  }
  if (shape == CALLBACK) {
    snprintf(name, sizeof name, "static int w%d_%d", chain, number);
    print_helper(level, name, "const void *one, const void *other");
  }
}

static void print_shape(const struct level *level, enum shape shape) {
  int chain = level->chain, number = level->level;
  char callee[64];
  snprintf(callee, sizeof callee, shape == TABLE ? "q%d_%d->call" : "q%d_%d", chain, number);
  if (shape != POINTER && shape != TABLE)
    snprintf(callee, sizeof callee, "%s", level->callee);
  switch (shape) {
  case RECURSION:
    printf("  static volatile int again;\n  if (again < %d) {\n    again++;\n    result = s%d_%d(", 1 + below(5), chain,
           number);
    for (int index = 0; index < level->parameters; index++)
      printf("%sp%d", index ? ", " : "", index);
    printf(");\n    again--;\n  } else {\n    result = ");
    print_call(level, callee);
    printf(";\n  }\n");
    break;
  case COLD:
    printf("  if (__builtin_expect(!over, 0)) {\n    seldom();\n    result = ");
    print_call(level, callee);
    printf(";\n    seldom();\n  }\n");
    break;
  case SWITCH:
    printf("  switch (sink & 7) {\n");
    for (int other = 0; other < 7; other++)
      printf("  case %d: result = churn(%d); escape(&result); break;\n", other + 10, other);
    printf("  default: result = ");
    print_call(level, callee);
    printf(";\n  }\n");
    break;
  case LOOP:
    printf("  for (int turn = 0; turn < 3; turn++)\n    if (turn == %d)\n      result += ", below(3));
    print_call(level, callee);
    printf(";\n    else\n      escape(&turn);\n");
    break;
  case BY_VALUE:
    printf("  struct large passed = {{a}};\n  result = w%d_%d(passed, a * 0.5, a, result);\n", chain, number);
    break;
  case CALLBACK:
    printf("  int sorted[2] = {a, a - 1};\n  qsort(sorted, 2, sizeof sorted[0], w%d_%d);\n", chain, number);
    break;
  case JUMP:
    printf("  jmp_buf back;\n  if (setjmp(back) == 0)\n    result = ");
    print_call(level, callee);
    printf(";\n");
    break;
  default:
    printf("  result = ");
    print_call(level, callee);
    printf(";\n");
  }
}

/* Prints a function whose call goes through code without unwind information. That code can call a blocking function
 * directly. */
static void print_bare_function(const struct level *level, const char *way) {
  print_head(level);
  const char *kept = print_frame_and_left_over(level, 1);
  if (strncmp(level->callee, "block_", 6) == 0 && happens(50))
    printf("  result = through_%s((int (*)(void *))%s, 0);\n", way, level->callee);
  else
    printf("  result = through_%s(dry%d_%d, (void *)(long)a);\n", way, level->chain, level->level);
  printf("%s  sink += result;\n  return result + 1;\n}\n", kept);
}

static void print_c_function(const struct level *level) {
  enum shape shape = usual[below(sizeof usual / sizeof usual[0])];
  print_before(level, shape);
  print_head(level);
  const char *kept = print_frame_and_left_over(level, shape != TAIL || happens(30));
  if (shape == TAIL) {
    printf("  return ");
    print_call(level, level->callee);
    printf(";\n}\n");
    return;
  }
  print_shape(level, shape);
  printf("%s  sink += result%s;\n  return result + 1;\n}\n", kept, happens(50) ? " + a" : "");
}

/* Calls that only C++ has. */
static const struct shape_text plus_plus_shapes[] = {
    {"struct b%1$d_%2$d { virtual int go(int) = 0; virtual ~b%1$d_%2$d() {} };\n"
     "struct d%1$d_%2$d : b%1$d_%2$d { long kept = 1; int go(int p) override { int r = CALL; kept += r; return r + "
     "p; } };\n",
     "  d%1$d_%2$d object;\n  b%1$d_%2$d *volatile base = &object;\n  result = base->go(a);\n"},
    {"", "  std::function<int(int)> call = [&](int p) { int r = CALL; return r + p + a; };\n  result = call(3);\n"},
    {"template <class F> __attribute__((noinline)) int t%1$d_%2$d(F &&f, int p) { int r = f(p); sink += r; return r; "
     "}\n",
     "  result = t%1$d_%2$d([&](int p) { return CALL + p; }, a);\n"},
    {"", "  try {\n    result = CALL;\n  } catch (int thrown) {\n    sink += thrown;\n  }\n"},
    {"", "  try {\n    throws(a);\n  } catch (int thrown) {\n    result = CALL;\n    sink += thrown;\n  }\n"},
    {"struct d%1$d_%2$d { int p; ~d%1$d_%2$d() { sink += CALL + p; } };\n",
     "  {\n    d%1$d_%2$d last{a};\n    escape(&last);\n  }\n"},
    {"struct d%1$d_%2$d { int p; __attribute__((noinline)) ~d%1$d_%2$d() { sink += CALL + p; } };\n",
     "  try {\n    d%1$d_%2$d last{a};\n    escape(&last);\n    throws(a);\n  } catch (int thrown) {\n    sink += "
     "thrown;\n  }\n"},
    {"struct m%1$d_%2$d { long kept = 1; __attribute__((noinline)) int go(int p) { int r = CALL; kept += r; return "
     "r + p; } };\n",
     "  m%1$d_%2$d object;\n  int (m%1$d_%2$d::*volatile method)(int) = &m%1$d_%2$d::go;\n  result = "
     "(object.*method)(a);\n"},
    {"__attribute__((noinline)) static int o%1$d_%2$d(void) { static int once = CALL; return once; }\n",
     "  result = dry ? CALL : o%1$d_%2$d();\n"},
    {"", "  std::vector<int> numbers(a & 7, a);\n  std::string text(size_t(a & 31), 'x');\n"
         "  std::unique_ptr<long> owned(new long(a));\n  result = CALL;\n  sink += long(numbers.size() + "
         "text.size()) + *owned;\n"},
    {"", "  int calls = 0;\n  std::vector<int> numbers{3, 1, 2};\n  std::sort(numbers.begin(), numbers.end(), "
         "[&](int x, int y) {\n"
         "    if (calls++ == 1)\n      result += CALL;\n    return x < y;\n  });\n"},
    {"static std::once_flag f%1$d_%2$d;\n", "  if (!dry)\n    std::call_once(f%1$d_%2$d, [&](int p) { result = CALL + "
                                            "p; }, a);\n  else\n    result = CALL;\n"},
};

static void print_plus_plus_function(const struct level *level) {
  int shape = below(sizeof plus_plus_shapes / sizeof plus_plus_shapes[0]);
  print_filled(level, plus_plus_shapes[shape].before);
  print_head(level);
  const char *kept = print_frame_and_left_over(level, 1);
  print_filled(level, plus_plus_shapes[shape].body);
  printf("%s  sink += result + a;\n  return result + 1;\n}\n", kept);
}

void generate_c(int chains, int plus_plus) {
  printf("#include \"sites.h\"\n#include <setjmp.h>\n#include <stdlib.h>\nstruct large { int values[20]; };\n");
  if (plus_plus)
    printf("#include <algorithm>\n#include <functional>\n#include <memory>\n#include <mutex>\n#include <string>\n"
           "#include <vector>\n#define ALIGNED alignas\n"
           "__attribute__((noinline)) static void throws(int a) { if (a < 1000000) throw a; }\n");
  else
    printf("#define ALIGNED _Alignas\n");
  for (int chain = 0; chain < chains; chain++) {
    struct level level = {.chain = chain, .callee_parameters = 0};
    snprintf(level.callee, sizeof level.callee, "block_%s", one_of(leaves, 12));
    for (level.level = below(7); level.level >= 0; level.level--) {
      level.parameters = level.level == 0 ? OUTERMOST_PARAMETERS : below(PARAMETERS_MAX + 1);
      printf("__attribute__((unused)) static int dry%d_%d(void *context) {\n  (void)context;\n  return "
             "",
             chain, level.level);
      struct level outside = level;
      outside.parameters = 0;
      print_call(&outside, level.callee);
      printf(" + 1;\n}\n");
      const char *way = a_bare_way();
      if (way[0] != 0)
        print_bare_function(&level, way);
      else if (plus_plus && happens(60))
        print_plus_plus_function(&level);
      else
        print_c_function(&level);
      snprintf(level.callee, sizeof level.callee, "s%d_%d", chain, level.level);
      level.callee_parameters = level.parameters;
    }
  }
  printf("typedef int site");
  print_types(OUTERMOST_PARAMETERS);
  printf(";\nstatic site *const sites[] = {");
  for (int chain = 0; chain < chains; chain++)
    printf("s%d_0, ", chain);
  printf("};\nint site_count(void) { return %d; }\n", chains);
  printf("int site_run(int number) { return sites[number](1, 2, 3, 4, 5, 6, 7, 8); }\n");
}
