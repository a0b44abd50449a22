#include "process_memory.h"

#include "known_modules.h"

#include <string.h>

/* Cached memory of the process outside the copy. */
enum { PAGE_BYTES = 4096, PAGES = 64 };

struct page {
  uint64_t address; /* 0: empty */
  bool is_whole;    /* completely readable; otherwise read piece by piece */
  bool is_constant; /* can change only with its module */
  bool is_unwiped;  /* its bytes might hold data that is not constant, even if the entry is empty */
};
struct process_memory {
  struct page pages[PAGES];         /* in pairs; an address selects the pair */
  bool is_second[PAGES / 2];        /* for each pair: the second entry was used last */
  uint8_t bytes[PAGES][PAGE_BYTES]; /* contents; separate from the entries, which are scanned for every stack */
};

size_t cunwind_memory_bytes(void) { return sizeof(struct process_memory); }

/* Memory within this distance below the copy counts as stack. */
#define BELOW_STACK_BYTES (UINT64_C(64) << 10)

static struct page *place_of(struct process_memory *memory, uint64_t address) {
  uint64_t pair = (address / PAGE_BYTES ^ address / PAGE_BYTES / PAGES) % (PAGES / 2);
  struct page *pages = &memory->pages[2 * pair];
  if (pages[memory->is_second[pair]].address != address)
    memory->is_second[pair] = !memory->is_second[pair];
  return &pages[memory->is_second[pair]];
}

static const struct page *page_at(struct unwinder *unwinder, uint64_t address, const uint8_t **bytes) {
  struct process_memory *memory = unwinder->memory;
  struct page *page = place_of(memory, address);
  uint8_t *room = memory->bytes[page - memory->pages];
  if (page->address != address) {
    page->address = address;
    page->is_whole = unwinder->process.read(unwinder->process.context, address, room, PAGE_BYTES);
    page->is_constant = page->is_whole && cunwind_is_constant(unwinder, address);
    page->is_unwiped = !page->is_constant;
  }
  *bytes = room;
  return page;
}

bool cunwind_read(struct unwinder *unwinder, uint64_t address, void *destination, size_t length) {
  uint8_t *to = destination;
  while (length > 0) {
    uint64_t offset = address % PAGE_BYTES;
    size_t here = PAGE_BYTES - offset < length ? (size_t)(PAGE_BYTES - offset) : length;
    const uint8_t *bytes;
    if (address < PAGE_BYTES)
      return false;
    if (page_at(unwinder, address - offset, &bytes)->is_whole)
      memcpy(to, bytes + offset, here);
    else if (!unwinder->process.read(unwinder->process.context, address, to, here)) {
      /* An unreadable page of a module might be readable later, so facts derived from the failure must not persist. */
      struct unwind_module module;
      if (cunwind_find_module(unwinder, address, &module))
        cunwind_learnt_elsewhere(unwinder);
      return false;
    }
    to += here;
    address += here;
    length -= here;
  }
  return true;
}

bool cunwind_is_kept(struct unwinder *unwinder, uint64_t address) {
  const struct page *page = place_of(unwinder->memory, address - address % PAGE_BYTES);
  return page->address == address - address % PAGE_BYTES && page->is_constant;
}

bool cunwind_word(struct walk *walk, uint64_t address, uint64_t *value) {
  const struct stack_copy *copy = walk->copy;
  uint64_t offset = address - copy->stack_start;
  if (offset < copy->stack_bytes && copy->stack_bytes - offset >= sizeof *value) {
    memcpy(value, copy->stack + offset, sizeof *value);
    walk->last_read = address;
    return true;
  }
  /* The thread's own stack, if the thread was on another stack. */
  offset = address - copy->own_start;
  if (offset < copy->own_bytes && copy->own_bytes - offset >= sizeof *value) {
    memcpy(value, copy->stack + copy->stack_bytes + offset, sizeof *value);
    walk->last_read = address;
    return true;
  }
  if (address >= copy->own_low && address < copy->own_end) {
    walk->beyond_copy = true;
    return false;
  }
  /* The stack beyond a truncated copy is live and might have changed since, so its values are not trusted. If the
   * stack's end is unknown, a module might lie within the assumed range. */
  struct unwind_module module;
  if (copy->truncated && address >= copy->stack_start && address < copy->stack_end &&
      !cunwind_find_module(walk->unwinder, address, &module)) {
    walk->beyond_copy = true;
    return false;
  }
  /* The thread has reused the memory below the copy since; the old value is lost. */
  if (address < copy->stack_start && copy->stack_start - address < BELOW_STACK_BYTES) {
    walk->unreadable = true;
    return false;
  }
  if (!cunwind_read(walk->unwinder, address, value, sizeof *value)) {
    walk->unreadable = true;
    return false;
  }
  return true;
}

bool cunwind_find_module(struct unwinder *unwinder, uint64_t address, struct unwind_module *module) {
  bool is_found = unwinder->process.find_module(unwinder->process.context, address, module);
  if (is_found)
    cunwind_module_met(unwinder, module);
  return is_found;
}

void cunwind_memory_forget(struct unwinder *unwinder, bool all) {
  for (int index = 0; index < PAGES; index++)
    if (all || !unwinder->memory->pages[index].is_constant)
      unwinder->memory->pages[index].address = 0;
}

void cunwind_wipe(struct unwinder *unwinder) {
  struct process_memory *memory = unwinder->memory;
  for (int index = 0; index < PAGES; index++) {
    if (!memory->pages[index].is_unwiped)
      continue;
    memory->pages[index].address = 0;
    memory->pages[index].is_unwiped = false;
    memset(memory->bytes[index], 0, PAGE_BYTES);
  }
}
