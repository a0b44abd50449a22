#include "stack_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const char *const stack_ends[STACK_ENDS] = {"outermost",    "copy",       "frame-limit", "no-unwind-info",
                                            "no-module",    "unreadable", "no-progress", "failed",
                                            "not-captured", "no-register"};

static const struct unwind_architecture *const architectures[] = {&cunwind_x86_64, &cunwind_aarch64};

static bool same_frame(const struct unwind_frame *one, const struct unwind_frame *other) {
  return one->address == other->address && one->kind == other->kind;
}

enum comparison stack_compare(const struct recorded_stack *expected, const struct unwind_stack *found) {
  int total = expected->frame_count;
  /* Frames can be missing between a cut stack and the earlier stack joined to it. */
  int missing = found->joined_from > 0 ? total - (int)(found->count + found->left_out) : 0;
  if (missing < 0)
    return COMPARED_WRONG;
  if (found->left_out != 0 && (int)(found->left_out + found->count) != total)
    return COMPARED_WRONG;
  for (uint32_t index = 0; index < found->count; index++) {
    int number = (int)(index + (index >= UNWIND_FRAMES_INNER ? found->left_out : 0));
    if (missing > 0 && index >= found->joined_from)
      number += missing;
    if (number >= total || !same_frame(&found->frames[index], &expected->frames[number]))
      return COMPARED_WRONG;
  }
  if ((int)(found->count + found->left_out) + missing == total && found->end == expected->end)
    return COMPARED_EQUAL;
  return found->end != UNWIND_END_OUTERMOST ? COMPARED_CUT : COMPARED_WRONG;
}

void stack_write_bytes(FILE *file, const char *keyword, uint64_t address, const uint8_t *bytes, uint64_t length) {
  fprintf(file, "%s %" PRIx64 " ", keyword, address);
  for (uint64_t at = 0; at < length; at += 3) {
    uint32_t group = (uint32_t)bytes[at] << 16 | (at + 1 < length ? (uint32_t)bytes[at + 1] << 8 : 0) |
                     (at + 2 < length ? bytes[at + 2] : 0);
    putc(digits[group >> 18 & 63], file);
    putc(digits[group >> 12 & 63], file);
    putc(at + 1 < length ? digits[group >> 6 & 63] : '=', file);
    putc(at + 2 < length ? digits[group & 63] : '=', file);
  }
  putc('\n', file);
}

/* Writes BYTES like stack_write_bytes, without runs of more than 64 zeros. */
static void write_copy(FILE *file, const char *keyword, uint64_t address, const uint8_t *bytes, uint64_t length) {
  enum { RUN = 64 };
  uint64_t start = 0, end = 0; /* bounds of the current part without long runs of zeros */
  for (uint64_t at = 0; at <= length; at++) {
    if (at < length && bytes[at] == 0)
      continue;
    if (end > start && (at == length || at - end > RUN)) {
      stack_write_bytes(file, keyword, address + start, bytes + start, end - start);
      start = end = at;
    }
    if (at == length)
      break;
    if (end == start)
      start = at;
    end = at + 1;
  }
}

void stack_write(FILE *file, const struct recorded_stack *stack) {
  const struct stack_copy *copy = &stack->copy;
  fprintf(file, "stack 1\nkind %s\narchitecture %s\n", stack->kind, stack->architecture->name);
  if (stack->after[0])
    fprintf(file, "after %s\n", stack->after);
  for (int number = 0; number < stack->architecture->registers; number++)
    if (copy->registers.known >> number & 1)
      fprintf(file, "register %d %" PRIx64 "\n", number, copy->registers.values[number]);
  fprintf(file, "copied %" PRIx64 " %" PRIx64 " %" PRIx64 " %s\n", copy->stack_start, copy->stack_bytes,
          copy->stack_end, copy->truncated ? "truncated" : "whole");
  write_copy(file, "bytes", copy->stack_start, stack->bytes, copy->stack_bytes);
  if (copy->own_low != 0) {
    fprintf(file, "own %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", copy->own_low, copy->own_end,
            copy->own_start, copy->own_bytes);
    write_copy(file, "own-bytes", copy->own_start, stack->bytes + copy->stack_bytes, copy->own_bytes);
  }
  for (int index = 0; index < stack->module_count; index++)
    fprintf(file, "module %" PRIx64 " %" PRIx64 " %" PRIx64 " %s\n", stack->modules[index].start,
            stack->modules[index].end, stack->modules[index].eh_frame_hdr, stack->names[index]);
  for (int index = 0; index < stack->frame_count; index++) {
    const struct unwind_frame *frame = &stack->frames[index];
    fprintf(file, "frame %" PRIx64 " %s\n", frame->address, frame->kind == UNWIND_RETURN_ADDRESS ? "return" : "here");
  }
  fprintf(file, "end %s\n", stack_ends[stack->end]);
}

static int value_of(char digit) {
  const char *at = digit ? strchr(digits, digit) : NULL;
  return at ? (int)(at - digits) : -1;
}

/* Decodes TEXT (base64) in place. Returns the number of bytes. */
static uint64_t decode(char *text) {
  uint8_t *to = (uint8_t *)text;
  uint64_t length = 0;
  uint32_t group = 0;
  int bits = 0;
  for (const char *at = text; value_of(*at) >= 0; at++) {
    group = group << 6 | (uint32_t)value_of(*at);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      to[length++] = (uint8_t)(group >> bits);
    }
  }
  return length;
}

static int by_address(const void *one, const void *other) {
  uint64_t a = ((const struct piece *)one)->address, b = ((const struct piece *)other)->address;
  return a < b ? -1 : a > b;
}

static enum unwind_end end_named(const char *name) {
  for (int end = 0; end < STACK_ENDS; end++)
    if (strcmp(stack_ends[end], name) == 0)
      return (enum unwind_end)end;
  return UNWIND_END_FAILED;
}

void stack_read(const char *path, struct recorded_stack *stack) {
  FILE *file = fopen(path, "r");
  char *line = NULL, word[32] = "", text[STACK_NAME];
  size_t room = 0;
  int version = 0, after = 0;
  uint64_t a, b, c, d;
  memset(stack, 0, sizeof *stack);
  if (!file) {
    perror(path);
    exit(2);
  }
  for (ssize_t length; (length = getline(&line, &room, file)) > 0;) {
    line[length - 1] = 0;
    if (sscanf(line, "%31s%n", word, &after) != 1)
      continue;
    const char *rest = line + after + (line[after] == ' ');
    struct stack_copy *copy = &stack->copy;
    if (strcmp(word, "stack") == 0) {
      version = atoi(rest);
    } else if (strcmp(word, "kind") == 0) {
      snprintf(stack->kind, sizeof stack->kind, "%s", rest);
    } else if (strcmp(word, "after") == 0) {
      snprintf(stack->after, sizeof stack->after, "%s", rest);
    } else if (strcmp(word, "architecture") == 0) {
      for (size_t index = 0; index < sizeof architectures / sizeof architectures[0]; index++)
        if (strcmp(architectures[index]->name, rest) == 0)
          stack->architecture = architectures[index];
    } else if (sscanf(line, "register %" SCNu64 " %" SCNx64, &a, &b) == 2 && a < UNWIND_REGISTERS_MAX) {
      copy->registers.values[a] = b;
      copy->registers.known |= UINT64_C(1) << a;
    } else if (sscanf(line, "copied %" SCNx64 " %" SCNx64 " %" SCNx64 " %31s", &a, &b, &c, text) == 4) {
      copy->stack_start = a;
      copy->stack_bytes = b;
      copy->stack_end = c;
      copy->truncated = strcmp(text, "truncated") == 0;
      stack->bytes = calloc(b + 1, 1);
    } else if (sscanf(line, "own %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &a, &b, &c, &d) == 4) {
      copy->own_low = a;
      copy->own_end = b;
      copy->own_start = c;
      copy->own_bytes = d;
      stack->bytes = realloc(stack->bytes, copy->stack_bytes + d);
      memset(stack->bytes + copy->stack_bytes, 0, d);
    } else if (sscanf(line, "module %" SCNx64 " %" SCNx64 " %" SCNx64 "%n", &a, &b, &c, &after) == 3) {
      stack->modules[stack->module_count] = (struct unwind_module){a, b, c};
      snprintf(stack->names[stack->module_count++], STACK_NAME, "%s", line + after + (line[after] == ' '));
    } else if (sscanf(line, "frame %" SCNx64 " %31s", &a, text) == 2) {
      stack->frames[stack->frame_count++] = (struct unwind_frame){
          a, strcmp(text, "return") == 0 ? UNWIND_RETURN_ADDRESS : UNWIND_PROGRAM_COUNTER, UNWIND_NO_OFFSET};
    } else if (strcmp(word, "end") == 0) {
      stack->end = end_named(rest);
    } else if (sscanf(line, "%31s %" SCNx64 " %n", word, &a, &after) == 2) {
      uint64_t count = decode(line + after);
      if (strcmp(word, "bytes") == 0 && a - copy->stack_start + count <= copy->stack_bytes) {
        memcpy(stack->bytes + (a - copy->stack_start), line + after, count);
      } else if (strcmp(word, "own-bytes") == 0 && a - copy->own_start + count <= copy->own_bytes) {
        memcpy(stack->bytes + copy->stack_bytes + (a - copy->own_start), line + after, count);
      } else if (strcmp(word, "memory") == 0 && stack->piece_count < STACK_PIECES) {
        uint8_t *bytes = malloc(count);
        memcpy(bytes, line + after, count);
        stack->pieces[stack->piece_count++] = (struct piece){a, count, bytes};
      }
    }
  }
  free(line);
  fclose(file);
  stack->copy.stack = stack->bytes;
  qsort(stack->pieces, (size_t)stack->piece_count, sizeof stack->pieces[0], by_address);
  if (version != 1 || !stack->architecture || !stack->bytes) {
    fprintf(stderr, "%s: no recorded stack\n", path);
    exit(2);
  }
}

bool stack_memory(const struct recorded_stack *stack, uint64_t address, void *destination, size_t length) {
  uint8_t *to = destination;
  int low = 0, high = stack->piece_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (stack->pieces[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  for (low--; length > 0; low++) {
    if (low < 0 || low >= stack->piece_count)
      return false;
    const struct piece *piece = &stack->pieces[low];
    uint64_t offset = address - piece->address;
    if (address < piece->address || offset >= piece->length)
      return false;
    size_t here = piece->length - offset < length ? (size_t)(piece->length - offset) : length;
    memcpy(to, piece->bytes + offset, here);
    to += here;
    address += here;
    length -= here;
  }
  return true;
}

bool stack_module(const struct recorded_stack *stack, uint64_t address, struct unwind_module *module) {
  for (int index = 0; index < stack->module_count; index++)
    if (address >= stack->modules[index].start && address < stack->modules[index].end) {
      *module = stack->modules[index];
      return true;
    }
  return false;
}
