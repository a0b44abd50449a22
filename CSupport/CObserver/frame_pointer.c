#include "frame_pointer.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "links.h"

/* Whether a frame pointer of RECORD leads from CURSOR's frame to the outermost one, every return address on the way
 * following a call. */
static bool leads_out(struct walk *walk, unw_cursor_t cursor, bool interrupted, uint64_t record) {
  struct observer_registers before = walk->registers;
  int number = observer_arch_frame_pointer();
  walk->registers.values[number] = record;
  walk->registers.known |= UINT64_C(1) << number;
  bool leads = false;
  for (int depth = 0; depth < OBSERVER_FRAMES_MAX; depth++) {
    unw_cursor_t callee = cursor;
    int result = observer_walk_step(walk, &cursor, interrupted);
    unw_word_t pc = 0;
    bool of_function;
    if (result < 0)
      break;
    if (result == 0 || observer_libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0) {
      leads = result == 0 || pc == 0;
      break;
    }
    interrupted = observer_walk_interrupted(&callee, &cursor);
    if (!interrupted && observer_link_before(observer_arch_code_address(pc), 0, &of_function) == OBSERVER_CALL_NONE)
      break;
  }
  walk->registers = before;
  return leads;
}

bool observer_find_frame_pointer(struct walk *walk, const unw_cursor_t *cursor, bool interrupted, uint64_t *found) {
  const struct observer_copy *copy = walk->copy;
  unw_cursor_t here = *cursor;
  unw_proc_info_t function;
  unw_word_t sp = 0;
  if (observer_libunwind.get_reg(&here, UNW_REG_SP, &sp) != 0 || observer_libunwind.get_proc_info(&here, &function) != 0 ||
      sp < copy->stack_start)
    return false;
  uint64_t end = copy->stack_start + copy->stack_bytes;

  /* Where the function's beginning tells how large its frame is, there is one place only to look at. */
  uint8_t code[OBSERVER_PROLOGUE_BYTES];
  uint64_t frame_bytes, record, return_address;
  bool of_function;
  if (observer_walk_read(function.start_ip, code, sizeof code) && observer_arch_frame_bytes(code, &frame_bytes)) {
    record = sp + frame_bytes;
    if (record % 16 == 0 && record + 16 <= end && observer_walk_word(walk, record + 8, &return_address)) {
      enum observer_call_kind kind =
          observer_link_before(observer_arch_code_address(return_address), function.start_ip, &of_function);
      if ((of_function || kind == OBSERVER_CALL_INDIRECT) && leads_out(walk, *cursor, interrupted, record)) {
        *found = record;
        return true;
      }
    }
  }

  /* Otherwise every place is looked at. What earlier, deeper calls left behind looks just like a frame record, so it must
   * be the only one that a call of this very function made, or, where there is none of these, that an indirect call did. */
  int direct = 0, indirect = 0;
  uint64_t through_pointer = 0;
  for (record = (sp + 15) & ~UINT64_C(15); record + 16 <= end && direct < 2; record += 16) {
    if (!observer_walk_word(walk, record + 8, &return_address))
      continue;
    enum observer_call_kind kind =
        observer_link_before(observer_arch_code_address(return_address), function.start_ip, &of_function);
    if ((!of_function && kind != OBSERVER_CALL_INDIRECT) || !leads_out(walk, *cursor, interrupted, record))
      continue;
    if (of_function) {
      direct++;
      *found = record;
    } else {
      indirect++;
      through_pointer = record;
    }
  }
  if (direct == 0 && indirect == 1)
    *found = through_pointer;
  return direct == 1 || (direct == 0 && indirect == 1);
}

#endif
