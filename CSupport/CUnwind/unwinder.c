#include "unwinder.h"

#include "call_site.h"
#include "caller_registers.h"
#include "cursor.h"
#include "dataflow/solve.h"
#include "exception_handover.h"
#include "frame_pointer_recovery.h"
#include "frame_rule.h"
#include "function_start.h"
#include "join.h"
#include "known_modules.h"
#include "no_cfi.h"
#include "process_memory.h"
#include "return_path.h"
#include "unwind_tables.h"

#include <string.h>

static enum unwind_end why_it_stopped(const struct walk *walk) {
  if (walk->beyond_copy)
    return UNWIND_END_COPY;
  if (walk->unreadable)
    return UNWIND_END_UNREADABLE;
  if (walk->missing >= 0)
    return UNWIND_END_NO_REGISTER;
  return walk->no_module ? UNWIND_END_NO_MODULE : UNWIND_END_NO_UNWIND_INFO;
}

enum { WALKED_MAX = 1 << 16 };

/* Swift's async functions mark the saved frame pointer with a bit that no address uses. */
#define ASYNC_FRAME (UINT64_C(1) << 60)
#define ADDRESS_BITS ((UINT64_C(1) << 56) - 1)

/* Index of frame NUMBER: inner frames stay in order, outer frames use a ring. */
static uint32_t room_for(uint32_t number) {
  return number < UNWIND_FRAMES_INNER ? number
                                      : UNWIND_FRAMES_INNER + (number - UNWIND_FRAMES_INNER) % UNWIND_FRAMES_INNER;
}

static void reverse(struct unwind_stack *stack, uint32_t from, uint32_t to) {
  for (; from + 1 < to; from++, to--) {
    struct unwind_frame frame = stack->frames[from];
    stack->frames[from] = stack->frames[to - 1];
    stack->frames[to - 1] = frame;
    if (stack->places) {
      uint64_t place = stack->places[from];
      stack->places[from] = stack->places[to - 1];
      stack->places[to - 1] = place;
    }
  }
}

/* Rotates the ring into order by three reversals; drops the outermost frame if LESS. */
static void put_in_order(struct unwind_stack *stack, uint32_t total, bool less) {
  stack->count = total;
  if (total > UNWIND_FRAMES_MAX) {
    stack->count = UNWIND_FRAMES_MAX;
    stack->left_out = total - UNWIND_FRAMES_MAX;
    uint32_t first = room_for(total);
    reverse(stack, UNWIND_FRAMES_INNER, first);
    reverse(stack, first, UNWIND_FRAMES_MAX);
    reverse(stack, UNWIND_FRAMES_INNER, UNWIND_FRAMES_MAX);
  }
  stack->count -= less;
}

static uint32_t offset_in_function(struct unwinder *unwinder, const struct unwind_frame *frame) {
  struct code_range function;
  uint64_t address = frame->address - (frame->kind == UNWIND_RETURN_ADDRESS);
  if (!cunwind_function_at(unwinder, address, &function) || frame->address - function.start >= UNWIND_NO_OFFSET)
    return UNWIND_NO_OFFSET;
  return (uint32_t)(frame->address - function.start);
}

static uint64_t place_of(struct cursor *cursor, uint64_t sp) {
  int link = cursor->walk->unwinder->architecture->link;
  uint64_t value;
  if (link == UNWIND_NO_REGISTER)
    return sp - sizeof sp;
  cursor->walk->last_read = 0;
  return cunwind_cursor_register(cursor, link, &value) ? cursor->walk->last_read : 0;
}

static const struct {
  size_t place;
  size_t (*bytes)(void);
} parts[] = {
    {offsetof(struct unwinder, memory), cunwind_memory_bytes},
    {offsetof(struct unwinder, modules), cunwind_modules_bytes},
    {offsetof(struct unwinder, tables), cunwind_tables_bytes},
    {offsetof(struct unwinder, rules), cunwind_rules_bytes},
    {offsetof(struct unwinder, starts), cunwind_function_starts_bytes},
    {offsetof(struct unwinder, solver), cunwind_solver_bytes},
    {offsetof(struct unwinder, call_sites), cunwind_call_sites_bytes},
    {offsetof(struct unwinder, return_paths), cunwind_return_paths_bytes},
    {offsetof(struct unwinder, callers), cunwind_callers_bytes},
    {offsetof(struct unwinder, search), cunwind_frame_pointer_search_bytes},
    {offsetof(struct unwinder, no_cfi), cunwind_no_cfi_bytes},
    {offsetof(struct unwinder, kept), cunwind_kept_stacks_bytes},
};
enum { PARTS = sizeof parts / sizeof parts[0], PART_ALIGNMENT = 64 };

static size_t aligned(size_t bytes) { return (bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT; }

size_t cunwind_bytes(void) {
  size_t bytes = aligned(sizeof(struct unwinder));
  for (size_t index = 0; index < PARTS; index++)
    bytes += aligned(parts[index].bytes());
  return bytes;
}

struct unwinder *cunwind_create(void *memory, const struct unwind_architecture *architecture,
                                struct unwind_process process) {
  struct unwinder *unwinder = memory;
  uint8_t *next = (uint8_t *)memory + aligned(sizeof *unwinder);
  unwinder->architecture = architecture;
  unwinder->process = process;
  for (size_t index = 0; index < PARTS; index++) {
    memcpy((uint8_t *)unwinder + parts[index].place, &next, sizeof next);
    next += aligned(parts[index].bytes());
  }
  return unwinder;
}

void cunwind_forget(struct unwinder *unwinder) {
  cunwind_modules_forget(unwinder);
  cunwind_memory_forget(unwinder, true);
  cunwind_solver_forget(unwinder);
  cunwind_function_starts_forget(unwinder);
  cunwind_tables_forget(unwinder);
  cunwind_call_sites_forget(unwinder);
  cunwind_rules_forget(unwinder);
}

void cunwind_begin_sample(struct unwinder *unwinder) {
  /* Targets of calls can change even if no module does. */
  cunwind_call_sites_forget(unwinder);
  if (!cunwind_modules_remain(unwinder))
    cunwind_forget(unwinder);
}

/* Searches the stack for the frame pointer only if code analysis alone does not find the caller. */
static bool find_bare_caller(struct cursor *cursor, uint64_t pc, bool interrupted, struct caller_frame *caller) {
  struct walk *walk = cursor->walk;
  int number = walk->unwinder->architecture->frame_pointer;
  uint64_t record;
  if (cunwind_no_cfi_caller(cursor, pc, interrupted, caller))
    return true;
  struct walk without = *walk;
  if (walk->missing == number && cunwind_recover_frame_pointer(cursor, interrupted, &record)) {
    walk->registers.values[number] = record;
    walk->registers.known |= UINT64_C(1) << number;
    return cunwind_no_cfi_caller(cursor, pc, interrupted, caller);
  }
  *walk = without;
  return false;
}

void cunwind_unwind(struct unwinder *unwinder, const struct stack_copy *copy, struct unwind_stack *stack) {
  struct walk walk = {.unwinder = unwinder, .copy = copy, .registers = copy->registers};
  struct cursor cursor;
  stack->count = stack->left_out = stack->joined_from = 0;
  stack->last_sp = stack->last_frame_pointer = 0;
  stack->end = UNWIND_END_FAILED;
  cunwind_memory_forget(unwinder, false);
  if (!cunwind_cursor_resume(&walk, &cursor))
    return;
  enum unwind_frame_kind kind = UNWIND_PROGRAM_COUNTER;
  bool interrupted = false;
  uint32_t total = 0;
  bool less = false;
  for (;;) {
    uint64_t pc = cunwind_code_address(unwinder, cunwind_cursor_pc(&cursor)), sp = cursor.sp, pointer = 0;
    if (pc == 0) {
      /* If the innermost frame has address 0, the thread has called a null pointer. */
      stack->end = total > 0 ? UNWIND_END_OUTERMOST : UNWIND_END_NO_MODULE;
      break;
    }
    struct unwind_module module;
    bool in_module = cunwind_find_module(unwinder, pc, &module);
    if (!in_module && kind == UNWIND_RETURN_ADDRESS && !cunwind_follows_call(unwinder, pc)) {
      stack->end = UNWIND_END_NO_MODULE;
      break;
    }
    if (total == WALKED_MAX) {
      stack->end = UNWIND_END_FRAME_LIMIT;
      break;
    }
    /* An interrupted function might have no frame: its caller's stack pointer then equals its own. */
    if (total > 1 && kind == UNWIND_RETURN_ADDRESS && (sp < stack->last_sp || (sp == stack->last_sp && !interrupted))) {
      stack->end = UNWIND_END_NO_PROGRESS;
      break;
    }
    int frame_pointer = unwinder->architecture->frame_pointer;
    bool has_pointer = cunwind_cursor_register(&cursor, frame_pointer, &pointer);
    if (has_pointer && kind == UNWIND_RETURN_ADDRESS && (pointer & ~ADDRESS_BITS) == ASYNC_FRAME) {
      pointer &= ADDRESS_BITS;
      if (!cunwind_cursor_resume_at(&walk, &cursor, pc, sp, pointer, true))
        break;
    }
    uint64_t inner_sp = stack->last_sp, inner_pointer = stack->last_frame_pointer;
    stack->last_sp = sp;
    stack->last_frame_pointer = has_pointer ? pointer : 0;
    uint32_t room = room_for(total++);
    struct unwind_frame *frame = &stack->frames[room];
    *frame = (struct unwind_frame){pc, kind, UNWIND_NO_OFFSET};
    if (stack->places)
      stack->places[room] = kind == UNWIND_PROGRAM_COUNTER ? 0 : place_of(&cursor, sp);
    struct cursor before = cursor;
    interrupted = kind == UNWIND_PROGRAM_COUNTER;
    int result = cunwind_cursor_step(&cursor);
    uint64_t record;
    if (result < 0 && walk.missing == frame_pointer && !walk.no_module && !walk.no_info) {
      if (cunwind_recover_frame_pointer(&before, interrupted, &record)) {
        walk.registers.values[frame_pointer] = record;
        walk.registers.known |= UINT64_C(1) << frame_pointer;
      }
      cursor = before;
      result = cunwind_cursor_step(&cursor);
    }
    if (in_module)
      frame->offset = offset_in_function(unwinder, frame);
    if ((walk.no_module || walk.no_info) && !cursor.was_interrupted) {
      struct caller_frame caller;
      if (!find_bare_caller(&before, pc, interrupted, &caller)) {
        stack->end = why_it_stopped(&walk);
        /* An address outside of all modules is trusted only if it leads to a caller. */
        if (!in_module && kind == UNWIND_RETURN_ADDRESS) {
          less = true;
          stack->last_sp = inner_sp;
          stack->last_frame_pointer = inner_pointer;
        }
        break;
      }
      if (caller.return_address == 0) {
        stack->end = UNWIND_END_OUTERMOST;
        break;
      }
      if (!cunwind_cursor_resume_at(&walk, &cursor, caller.return_address, caller.sp, caller.frame_pointer,
                                    caller.has_frame_pointer))
        break;
      kind = UNWIND_RETURN_ADDRESS;
      continue;
    }
    if (result <= 0) {
      stack->end = result == 0 ? UNWIND_END_OUTERMOST : why_it_stopped(&walk);
      break;
    }
    kind = UNWIND_RETURN_ADDRESS;
    if (cursor.was_interrupted) {
      /* Neither the trampoline's nor the interrupted address is a return address. */
      frame->kind = kind = UNWIND_PROGRAM_COUNTER;
      continue;
    }
    uint64_t return_address;
    enum handover handover = cunwind_handover(&before, &cursor, total, &sp, &return_address);
    if (handover == HANDOVER_LOST ||
        (handover == HANDOVER_FOUND && !cunwind_cursor_resume_at(&walk, &cursor, return_address, sp, 0, false)))
      break;
  }
  put_in_order(stack, total, less);
}
