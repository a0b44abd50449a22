/* Reduces a recorded stack to the memory that its unwinding reads. "slim --lines FILE FIRST|-" unwinds FILE's stack and
 * prints the 64-byte lines of memory that were read, and the result. "slim FILE FIRST|- LINES..." prints FILE's stack
 * with the lines and results in the files LINES. FIRST is the file of the previous stack of the same work item. */
#include "stack_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, LINES_MAX = 1 << 16, PAGE = 4096 };

static uint64_t lines[LINES_MAX];
static int line_count;

static void add_line(uint64_t line) {
  int low = 0, high = line_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (lines[middle] < line)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < line_count && lines[low] == line)
    return;
  if (line_count == LINES_MAX) {
    fprintf(stderr, "slim: too much memory is read\n");
    exit(2);
  }
  memmove(&lines[low + 1], &lines[low], (size_t)(line_count - low) * sizeof lines[0]);
  lines[low] = line;
  line_count++;
}

/* Notes the lines of each read. Refuses reads of whole pages, which would note lines that are not needed. */
static bool read_noting(void *context, uint64_t address, void *destination, size_t length) {
  if (length == PAGE || !stack_memory(*(struct recorded_stack **)context, address, destination, length))
    return false;
  for (uint64_t line = address / LINE; line <= (address + length - 1) / LINE; line++)
    add_line(line);
  return true;
}

static bool find_module(void *context, uint64_t address, struct unwind_module *module) {
  return stack_module(*(struct recorded_stack **)context, address, module);
}

static void unwind(struct recorded_stack *stack, struct recorded_stack *first) {
  static struct unwind_frame frames[UNWIND_FRAMES_MAX];
  static uint64_t places[UNWIND_FRAMES_MAX];
  const struct unwind_work_item item = {.slot = 1, .generation = 1, .began_ns = 1, .tid = 1};
  struct unwind_stack result = {.frames = frames, .places = places};
  struct recorded_stack *current = first ? first : stack;
  void *memory = aligned_alloc(64, (cunwind_bytes() + 63) / 64 * 64);
  memset(memory, 0, cunwind_bytes());
  struct unwinder *unwinder =
      cunwind_create(memory, stack->architecture, (struct unwind_process){read_noting, find_module, &current});
  if (first) {
    cunwind_unwind(unwinder, &first->copy, &result);
    cunwind_join(unwinder, &first->copy, item, &result);
    current = stack;
  }
  cunwind_unwind(unwinder, &stack->copy, &result);
  if (first)
    cunwind_join(unwinder, &stack->copy, item, &result);
  enum comparison comparison = stack_compare(stack, &result);
  printf("found %u %s\n", result.count + result.left_out, stack_ends[result.end]);
  if (comparison != COMPARED_EQUAL)
    fprintf(stderr, "# %s: %s: %u frames, %s\n", stack->kind, comparison == COMPARED_CUT ? "cut" : "WRONG",
            result.count, stack_ends[result.end]);
  if (comparison == COMPARED_WRONG)
    for (uint32_t index = 0; index < result.count && index < 40; index++)
      fprintf(stderr, "#   %" PRIx64 " %u\n", frames[index].address, frames[index].kind);
  free(memory);
}

static void print_lines(struct recorded_stack *stack, struct recorded_stack *first) {
  unwind(stack, first);
  for (int index = 0; index < line_count; index++)
    printf("line %" PRIx64 "\n", lines[index] * LINE);
}

/* Adds the lines that the file at PATH lists. */
static void take(const char *path) {
  FILE *file = fopen(path, "r");
  char text[256];
  uint64_t line;
  if (!file) {
    perror(path);
    exit(2);
  }
  while (fgets(text, sizeof text, file))
    if (sscanf(text, "line %" SCNx64, &line) == 1)
      add_line(line / LINE);
  fclose(file);
}

static void copy_results(const char *path) {
  FILE *file = fopen(path, "r");
  char text[256];
  while (file && fgets(text, sizeof text, file))
    if (strncmp(text, "line", 4) != 0)
      fputs(text, stdout);
  if (file)
    fclose(file);
}

int main(int count, char **arguments) {
  static struct recorded_stack stack, first;
  bool prints_lines = count == 4 && strcmp(arguments[1], "--lines") == 0;
  if (count < 4) {
    fprintf(stderr, "usage: slim [--lines] FILE FIRST [LINES...]\n");
    return 2;
  }
  const char *before = arguments[prints_lines ? 3 : 2];
  stack_read(arguments[prints_lines ? 2 : 1], &stack);
  if (strcmp(before, "-") != 0)
    stack_read(before, &first);
  if (prints_lines) {
    print_lines(&stack, first.architecture ? &first : NULL);
    return 0;
  }
  for (int index = 3; index < count; index++)
    take(arguments[index]);
  /* Omits modules without any line. */
  int kept = 0;
  for (int index = 0; index < stack.module_count; index++) {
    bool is_used = false;
    for (int line = 0; line < line_count && !is_used; line++)
      is_used = lines[line] * LINE + LINE > stack.modules[index].start && lines[line] * LINE < stack.modules[index].end;
    if (is_used) {
      stack.modules[kept] = stack.modules[index];
      memmove(stack.names[kept++], stack.names[index], STACK_NAME);
    }
  }
  stack.module_count = kept;
  stack_write(stdout, &stack);
  for (int index = 3; index < count; index++)
    copy_results(arguments[index]);
  for (int from = 0; from < line_count;) {
    static uint8_t bytes[LINES_MAX * LINE];
    int next = from;
    uint64_t length = 0;
    do {
      /* Recorded memory can begin or end within a line. */
      for (int at = 0; at < LINE; at++)
        if (stack_memory(&stack, lines[next] * LINE + (uint64_t)at, &bytes[length], 1))
          length++;
      next++;
    } while (next < line_count && lines[next] == lines[next - 1] + 1);
    uint64_t start = lines[from] * LINE;
    for (uint8_t byte; !stack_memory(&stack, start, &byte, 1);)
      start++;
    stack_write_bytes(stdout, "memory", start, bytes, length);
    from = next;
  }
  return 0;
}
