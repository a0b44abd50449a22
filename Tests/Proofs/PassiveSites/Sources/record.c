/* Runs a program instruction by instruction, tracks its calls and returns, and writes the stacks that the program
 * requests (hooks.h) to files: record [--survey] x86_64|aarch64 DIRECTORY DESCRIPTION PROGRAM ARGUMENT...
 *
 * Expected stacks follow from the executed instructions, without unwind tables: each call pushes its return address and
 * the stack pointer, and ends when the stack pointer is above that value. With --survey, no file is written. Instead,
 * the stack at every instruction is unwound and compared while the program requests it. */
#define _GNU_SOURCE
#include "hooks.h"
#include "stack_file.h"
#include "target.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_MAX = 4096, WATCHES_MAX = 64, COPIES_MAX = 1 << 20, PAGE = 4096 };

/* An active call: its return address, the stack pointer at the callee's entry, and the address at which the callee has
 * saved the return address, 0 if unknown. */
struct call {
  uint64_t address, place, saved_at;
  enum unwind_frame_kind kind;
};

struct watch {
  char name[STACK_NAME];
  uint64_t function, end; /* end 0: calls of one function */
  long index, seen, total;
  int depth;
  bool inside, done;
  char after[STACK_NAME];
};

static const struct target *target;
static struct unwind_registers now;
static struct call calls[CALLS_MAX];
static int call_count;
static struct watch watches[WATCHES_MAX];
static int watch_count;
static struct recorded_stack stack;
static uint64_t stack_end, own_end, other_low, other_end, copy_bytes = COPIES_MAX, made_start, made_bytes;
static char block_name[STACK_NAME], next_after[STACK_NAME];
static uint64_t block_word;
static const char *directory, *description;
static bool surveys, survey_on;
static int written;

static uint64_t pc_of(const struct unwind_registers *registers) { return registers->values[target->architecture->pc]; }

static uint64_t sp_of(const struct unwind_registers *registers) { return registers->values[target->architecture->sp]; }

/* Returns the code at ADDRESS. Caches pages, because code does not change. */
static uint32_t code_at(uint64_t address) {
  enum { PAGES = 256 };
  static struct {
    uint64_t address;
    uint8_t bytes[PAGE];
  } pages[PAGES];
  uint32_t word = 0;
  uint64_t start = address / PAGE * PAGE, place = address / PAGE % PAGES;
  if (pages[place].address != start) {
    if (!target->read(start, pages[place].bytes, PAGE))
      return 0;
    pages[place].address = start;
  }
  size_t left = PAGE - (address - start);
  memcpy(&word, pages[place].bytes + (address - start), left < sizeof word ? left : sizeof word);
  return word;
}

static bool is_x86_64(void) { return target->architecture == &cunwind_x86_64; }

static bool is_system_call(uint64_t address) {
  uint32_t code = code_at(address);
  return is_x86_64() ? (code & 0xffff) == 0x050f : code == 0xd4000001;
}

static uint64_t call_number(void) { return now.values[is_x86_64() ? 0 : 8]; }

/* Returns argument INDEX of a system call. */
static uint64_t argument(int index) { return now.values[target->architecture->arguments[index]]; }

static void text_at(uint64_t address, char *text, size_t length) {
  for (size_t at = 0; at < length; at++)
    if (!target->read(address + at, &text[at], 1) || text[at] == 0) {
      text[at] = 0;
      return;
    }
  text[length - 1] = 0;
}

/* Whether the system call NUMBER can block. */
static bool may_block(uint64_t number) {
  static const int native[] = {0, 7, 23, 34, 35, 61, 73, 202, 230, 232, 270, 271, 281},
                   arm[] = {63, 32, 72, 73, 98, 101, 115, 22, 260};
  const int *list = is_x86_64() ? native : arm;
  size_t count = is_x86_64() ? sizeof native / sizeof native[0] : sizeof arm / sizeof arm[0];
  for (size_t index = 0; index < count; index++)
    if ((uint64_t)list[index] == number)
      return true;
  return false;
}

static void add_memory(uint64_t start, uint64_t length) {
  static uint8_t bytes[64 << 20];
  uint64_t end = start + length, first = 0, count = 0;
  for (uint64_t at = start; at < end;) {
    uint64_t here = PAGE - at % PAGE < end - at ? PAGE - at % PAGE : end - at;
    bool can_be_read = count + here <= sizeof bytes && target->read(at, bytes + count, here);
    if (can_be_read) {
      if (count == 0)
        first = at;
      count += here;
    }
    at += here;
    if (count > 0 && (!can_be_read || at >= end)) {
      uint8_t *kept = malloc(count);
      memcpy(kept, bytes, count);
      stack.pieces[stack.piece_count++] = (struct piece){first, count, kept};
      count = 0;
    }
  }
}

/* Copies the stack as the observer does: from the red zone on. */
static void copy_stack(const struct unwind_registers *registers) {
  static uint8_t bytes[COPIES_MAX * 2];
  struct stack_copy *copy = &stack.copy;
  uint64_t sp = sp_of(registers), start = sp - target->architecture->red_zone;
  memset(copy, 0, sizeof *copy);
  copy->registers = *registers;
  copy->stack_start = start;
  bool on_other = sp >= other_low && sp < other_end;
  copy->stack_end = on_other ? other_end : stack_end;
  copy->stack_bytes = copy->stack_end - start;
  copy->truncated = copy->stack_bytes > copy_bytes;
  if (copy->truncated)
    copy->stack_bytes = copy_bytes;
  if (on_other) {
    copy->own_low = stack_end - (8 << 20);
    copy->own_end = stack_end;
    /* Copies the maximum, because the registers saved in the signal frame are not known yet. */
    copy->own_start = own_end;
    copy->own_bytes = stack_end - own_end;
  }
  copy->stack = stack.bytes = bytes;
  if (!target->read(start, bytes, copy->stack_bytes) ||
      (on_other && !target->read(copy->own_start, bytes + copy->stack_bytes, copy->own_bytes))) {
    fprintf(stderr, "record: the stack cannot be read\n");
    exit(2);
  }
}

static void note_frame(uint64_t address, enum unwind_frame_kind kind) {
  stack.frames[stack.frame_count++] = (struct unwind_frame){address, kind, UNWIND_NO_OFFSET};
}

/* Returns the number of the call that handles an exception, if the unwinder has overwritten the return address of call
 * INDEX. Then *ADDRESS is the new return address: the handling frame's, or the handler's. Otherwise returns -1. */
static int handler_of(int index, uint64_t *address) {
  enum { NEAR = 4096 };
  if (calls[index].saved_at == 0 || calls[index].kind != UNWIND_RETURN_ADDRESS ||
      !target->read(calls[index].saved_at, address, sizeof *address) || *address == calls[index].address)
    return -1;
  for (int other = index - 1; other >= 0; other--)
    if (calls[other].address == *address)
      return other;
  for (int other = index - 1; other >= 0; other--)
    if (calls[other].address - *address + NEAR < 2 * NEAR) {
      ++*address; /* The lookup of a return address subtracts 1. */
      return other;
    }
  return -1;
}

static void note_frames(uint64_t pc) {
  uint64_t address;
  stack.frame_count = 0;
  note_frame(pc, UNWIND_PROGRAM_COUNTER);
  for (int index = call_count - 1; index >= 0; index--) {
    int handler = handler_of(index, &address);
    if (handler >= 0) {
      note_frame(address, UNWIND_RETURN_ADDRESS);
      index = handler;
    } else {
      note_frame(calls[index].address, calls[index].kind);
    }
  }
  stack.end = UNWIND_END_OUTERMOST;
}

static void write_stack(const char *name, const struct unwind_registers *registers, const char *after) {
  char path[1024];
  if (surveys)
    return;
  copy_stack(registers);
  stack.architecture = target->architecture;
  note_frames(pc_of(registers));
  /* Omits frames that the copy does not reach. */
  if (stack.copy.truncated) {
    int kept = 1;
    for (; kept < stack.frame_count; kept++)
      if (calls[stack.frame_count - 1 - kept].place + 8 > stack.copy.stack_start + stack.copy.stack_bytes)
        break;
    stack.frame_count = kept;
    stack.end = UNWIND_END_COPY;
  }
  for (int index = 0; index < stack.piece_count; index++)
    free(stack.pieces[index].bytes);
  stack.piece_count = 0;
  for (int index = 0; index < stack.module_count; index++)
    add_memory(stack.modules[index].start, stack.modules[index].end - stack.modules[index].start);
  if (made_bytes > 0)
    add_memory(made_start, made_bytes);
  snprintf(stack.kind, sizeof stack.kind, "%.200s: %s", name, description);
  snprintf(stack.after, sizeof stack.after, "%s", after);
  snprintf(path, sizeof path, "%s/%s.raw", directory, name);
  FILE *file = fopen(path, "w");
  if (!file) {
    perror(path);
    exit(2);
  }
  stack_write(file, &stack);
  for (int index = 0; index < stack.piece_count; index++)
    stack_write_bytes(file, "memory", stack.pieces[index].address, stack.pieces[index].bytes,
                      stack.pieces[index].length);
  fclose(file);
  written++;
}

/* Writes the stack as the kernel shows it while the thread is blocked in its next system call. */
static void write_blocked(const char *name) {
  struct unwind_registers blocked = {.known = 0};
  uint64_t arguments[6];
  for (int index = 0; index < 6; index++)
    arguments[index] = argument(index);
  cunwind_set_blocked(target->architecture, &blocked, sp_of(&now), pc_of(&now) + (is_x86_64() ? 2 : 4));
  cunwind_set_arguments(target->architecture, &blocked, arguments);
  write_stack(name, &blocked, next_after);
}

static void add_module(void) {
  struct unwind_module module = {argument(1), argument(2), argument(3)};
  if (stack.module_count == STACK_MODULES)
    return;
  char path[STACK_NAME];
  text_at(argument(4), path, sizeof path);
  const char *slash = strrchr(path, '/');
  snprintf(stack.names[stack.module_count], STACK_NAME, "%s", slash ? slash + 1 : path[0] ? path : "program");
  stack.modules[stack.module_count++] = module;
}

static void add_watch(bool is_range) {
  if (watch_count == WATCHES_MAX)
    return;
  struct watch *watch = &watches[watch_count++];
  *watch = (struct watch){.function = argument(2)};
  text_at(argument(1), watch->name, sizeof watch->name);
  watch->end = is_range ? argument(3) : 0;
  watch->index = (long)(is_range ? argument(4) : argument(3));
  strcpy(watch->after, next_after);
}

/* Executes a request of the program. */
static void do_hook(void) {
  switch (argument(0)) {
  case HOOK_MODULE:
    add_module();
    break;
  case HOOK_STACK:
    stack_end = argument(1) + 16;
    break;
  case HOOK_MEMORY:
    made_start = argument(1);
    made_bytes = argument(2);
    break;
  case HOOK_WATCH:
  case HOOK_WATCH_RANGE:
    add_watch(argument(0) == HOOK_WATCH_RANGE);
    break;
  case HOOK_BLOCK:
    text_at(argument(1), block_name, sizeof block_name);
    block_word = argument(2);
    break;
  case HOOK_OTHER_STACK:
    other_low = argument(1);
    other_end = argument(2);
    break;
  case HOOK_COPY_BYTES:
    copy_bytes = argument(1);
    break;
  case HOOK_SURVEY:
    survey_on = argument(1);
    break;
  case HOOK_AFTER:
    text_at(argument(1), next_after, sizeof next_after);
    break;
  }
}

static void check_watch(struct watch *watch) {
  uint64_t pc = pc_of(&now);
  if (watch->done)
    return;
  if (watch->end != 0) {
    if (pc >= watch->function && pc < watch->end && watch->seen++ == watch->index) {
      watch->done = true;
      write_stack(watch->name, &now, watch->after);
    }
    return;
  }
  if (!watch->inside && pc == watch->function) {
    watch->inside = true;
    watch->depth = call_count;
    watch->seen = 0;
  }
  if (watch->inside && call_count < watch->depth) {
    watch->inside = false;
    watch->total = watch->seen;
  }
  if (!watch->inside || call_count != watch->depth)
    return;
  if (watch->seen == watch->index ||
      (watch->index < 0 && watch->total > 0 && watch->seen == watch->total + watch->index)) {
    watch->done = true;
    write_stack(watch->name, &now, watch->after);
  }
  watch->seen++;
}

static struct unwinder *unwinder;
/* The survey's numbers of equal, cut and wrong stacks, by mode. In the blocked mode, only the stack pointer and the
 * program counter are known. */
enum { KNOWN, BLOCKED, MODES };
static long compared[MODES][3];
static const char *const modes[MODES] = {"known", "blocked"};

static bool read_process(void *context, uint64_t address, void *destination, size_t length) {
  (void)context;
  return target->read(address, destination, length);
}

static bool find_module(void *context, uint64_t address, struct unwind_module *module) {
  (void)context;
  return stack_module(&stack, address, module);
}

static struct unwinder *create(void) {
  void *memory = aligned_alloc(64, (cunwind_bytes() + 63) / 64 * 64);
  memset(memory, 0, cunwind_bytes());
  return cunwind_create(memory, target->architecture, (struct unwind_process){read_process, find_module, NULL});
}

static void survey_with(int mode) {
  static struct unwind_frame frames[UNWIND_FRAMES_MAX];
  struct unwind_stack found = {.frames = frames};
  cunwind_unwind(unwinder, &stack.copy, &found);
  enum comparison comparison = stack_compare(&stack, &found);
  compared[mode][comparison]++;
  if (comparison == COMPARED_EQUAL || (comparison == COMPARED_CUT && !getenv("SURVEY_CUT")))
    return;
  printf("# %s, %s:", comparison == COMPARED_CUT ? "cut" : "wrong", modes[mode]);
  for (uint32_t index = 0; index <= found.count && index < 12; index++)
    printf(" %" PRIx64 "%s", index < found.count ? frames[index].address : 0,
           index < (uint32_t)stack.frame_count && index < found.count &&
                   frames[index].address == stack.frames[index].address
               ? ""
               : "!");
  printf(" %s; expected", stack_ends[found.end]);
  for (int index = 0; index < stack.frame_count && index < 12; index++)
    printf(" %" PRIx64, stack.frames[index].address);
  printf("; fp %" PRIx64 " sp %" PRIx64 "\n", now.values[target->architecture->frame_pointer], sp_of(&now));
}

static void survey(void) {
  enum { PLACES = 1 << 16, TIMES = 2 };
  static struct {
    uint64_t pc;
    int times;
  } seen[PLACES];
  uint64_t pc = pc_of(&now);
  uint64_t place = (pc ^ pc >> 16) % PLACES;
  if (seen[place].pc != pc)
    seen[place].times = 0;
  seen[place].pc = pc;
  if (seen[place].times++ >= TIMES)
    return;
  if (!unwinder)
    unwinder = create();
  copy_stack(&now);
  note_frames(pc);
  struct unwind_registers all = stack.copy.registers, blocked = {.known = 0};
  cunwind_set_blocked(target->architecture, &blocked, sp_of(&now), pc);
  survey_with(KNOWN);
  stack.copy.registers = blocked;
  survey_with(BLOCKED);
  stack.copy.registers = all;
}

/* Finds the address at which the callee of CALL has saved its return address. The callee is about to call another
 * function, with the stack pointer SP. */
static void find_saved(struct call *call, uint64_t sp) {
  uint64_t word;
  for (uint64_t at = sp; at < call->place && call->saved_at == 0; at += 8)
    if (target->read(at, &word, sizeof word) && (word & target->architecture->code_mask) == call->address)
      call->saved_at = at;
}

/* Updates the calls for the instruction that led from BEFORE to the present registers. */
static void account(const struct unwind_registers *before) {
  uint64_t pc = pc_of(&now), sp = sp_of(&now), from = pc_of(before), word = 0;
  struct call call = {.kind = UNWIND_RETURN_ADDRESS};
  bool calls_now = false;
  if (is_x86_64()) {
    if (sp == sp_of(before) - 8 && target->read(sp, &word, sizeof word) && word > from && word - from <= 15 &&
        pc != word) {
      calls_now = true;
      call.address = word;
      call.place = call.saved_at = sp;
    }
  } else {
    uint32_t code = code_at(from);
    /* QEMU runs a system call and the next instruction in one step. */
    if (code == 0xd4000001)
      code = code_at(from += 4);
    bool is_call =
        (code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000 || (code & 0xfefff800) == 0xd63f0800;
    if (is_call && now.values[30] == from + 4) {
      calls_now = true;
      call.address = from + 4;
      call.place = sp;
    }
  }
  if (calls_now) {
    if (call_count == CALLS_MAX) {
      fprintf(stderr, "record: too many calls\n");
      exit(2);
    }
    if (call_count > 0)
      find_saved(&calls[call_count - 1], sp);
    calls[call_count++] = call;
    return;
  }
  /* An exception or longjmp(3) ends calls without a return, and continues in an outer frame. */
  static bool has_left;
  uint32_t code = is_x86_64() ? 0 : code_at(from);
  bool jumps = (code & 0xfffffc1f) == 0xd65f0000 || (code & 0xfffffc1f) == 0xd61f0000 || code == 0xd65f0bff;
  while (call_count > 0) {
    const struct call *last = &calls[call_count - 1];
    bool returns = !is_x86_64() && sp == last->place && jumps && (has_left || pc == last->address);
    if (sp <= last->place && !returns)
      break;
    has_left = !returns;
    call_count--;
  }
  has_left &= !jumps;
}

/* Updates the calls for a signal handler that the kernel has called. The handler returns to code that resumes the
 * instruction at BEFORE. */
static void account_signal(const struct unwind_registers *before) {
  uint64_t sp = sp_of(&now), returns_to = 0;
  if (is_x86_64())
    target->read(sp, &returns_to, sizeof returns_to);
  else
    returns_to = now.values[30];
  calls[call_count++] = (struct call){.address = pc_of(before), .place = sp, .kind = UNWIND_PROGRAM_COUNTER};
  calls[call_count++] = (struct call){.address = returns_to, .place = sp, .kind = UNWIND_PROGRAM_COUNTER};
  /* The kernel's code for the return is in the vDSO, for which QEMU has no module. */
  struct unwind_module module;
  if (!stack_module(&stack, returns_to, &module) && stack.module_count < STACK_MODULES) {
    strcpy(stack.names[stack.module_count], "linux-vdso.so.1");
    stack.modules[stack.module_count++] =
        (struct unwind_module){returns_to / PAGE * PAGE, returns_to / PAGE * PAGE + PAGE, 0};
  }
  /* The start of the copied part of the thread's own stack, if the handler runs on an alternate stack. */
  own_end = sp_of(before) - target->architecture->red_zone;
}

int main(int count, char **arguments) {
  if (count > 1 && strcmp(arguments[1], "--survey") == 0) {
    surveys = true;
    count--;
    arguments++;
  }
  if (count < 5) {
    fprintf(stderr, "usage: record [--survey] x86_64|aarch64 DIRECTORY DESCRIPTION PROGRAM ARGUMENT...\n");
    return 2;
  }
  directory = arguments[2];
  description = arguments[3];
  target = strcmp(arguments[1], "aarch64") == 0 ? target_aarch64(arguments + 4) : target_native(arguments + 4);
  if (!target->registers(&now))
    return 2;
  long steps = 0, limit = 20000000;
  int signal = 0;
  bool was_pending = false;
  while (steps++ < limit) {
    struct unwind_registers before = now;
    bool is_call = signal == 0 && is_system_call(pc_of(&now));
    if (is_call && call_number() == HOOK_CALL)
      do_hook();
    int word = 1;
    if (is_call && block_name[0] && may_block(call_number()) &&
        (block_word == 0 || (target->read(block_word, &word, sizeof word) && word != 0))) {
      write_blocked(block_name);
      break;
    }
    int delivered = signal;
    signal = target->step(delivered);
    if (signal < 0 || !target->registers(&now))
      break;
    if (delivered != 0 && pc_of(&now) != pc_of(&before)) {
      account_signal(&before);
    } else if (signal == 0 || !was_pending) {
      account(&before);
    }
    was_pending = signal != 0;
    if (signal != 0)
      continue;
    for (int index = 0; index < watch_count; index++)
      check_watch(&watches[index]);
    if (surveys && survey_on)
      survey();
    /* Ends before a signal handler returns, which would raise the signal again. */
    bool is_done = watch_count > 0 && !surveys;
    for (int index = 0; index < watch_count; index++)
      is_done &= watches[index].done;
    if (is_done)
      break;
  }
  target->end();
  if (surveys) {
    printf("%s:", description);
    for (int mode = 0; mode < MODES; mode++)
      printf("%s %s %ld equal, %ld cut, %ld wrong", mode == KNOWN ? "" : ";", modes[mode], compared[mode][0],
             compared[mode][1], compared[mode][2]);
    printf("\n");
  } else {
    fprintf(stderr, "# %s: %d stacks\n", description, written);
  }
  return 0;
}
