#include "return_path.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include "function_start.h"
#include "observer_arch.h"
#include "observer_context.h"

/* Bounds on the work for one frame: instructions, ways that are still to be gone, returns that are compared, words that are
 * stored on a way; and room for the instructions, twice as much as there are. */
enum { INSTRUCTIONS_MAX = 2000, WAYS = 48, RETURNS_MAX = 4, STORED = 12, VISITED = 4096 };

/* A word of the stack that has been stored on the way. */
struct stored {
  uint64_t at;
  struct known_word what;
};

/* One way, and how far it has been gone. */
struct way {
  uint64_t address;
  struct frame_registers registers;
  bool is_straight;
  int stored_count;
  struct stored stored[STORED];
};

struct path {
  struct walk *walk;
  struct code_range function;
  bool bounded;
  uint64_t lowest; /* the stack pointer: no return address is below */
  int instructions, returns;
  bool disagrees;
  struct return_place *place;
};

static struct room {
  struct way way; /* the one that is gone */
  struct way ways[WAYS];
  int way_count;
  uint32_t use; /* which search the entries of VISITED belong to */
  struct {
    uint32_t use, address;
  } visited[VISITED];
} rooms[OBSERVER_CONTEXTS_MAX];

static struct room *here(void) { return &rooms[observer_context]; }

/* Whether the instruction at ADDRESS, of at most INSTRUCTIONS_MAX, comes for the first time. */
static bool visit(uint64_t address) {
  uint32_t low = (uint32_t)address;
  for (uint32_t place = (low ^ low >> 12) % VISITED;; place = (place + 1) % VISITED) {
    if (here()->visited[place].use == here()->use && here()->visited[place].address == low)
      return false;
    if (here()->visited[place].use != here()->use) {
      here()->visited[place].use = here()->use;
      here()->visited[place].address = low;
      return true;
    }
  }
}

static void branch_off(const struct way *way, uint64_t address) {
  if (here()->way_count == WAYS)
    return;
  struct way *other = &here()->ways[here()->way_count++];
  *other = *way;
  other->address = address;
}

/* The register NUMBER, if it is one that is kept account of. */
static struct known_word *register_of(struct way *way, int number) {
  if (number == CODE_SP)
    return &way->registers.sp;
  if (number == CODE_FRAME_POINTER)
    return &way->registers.frame_pointer;
  return number != CODE_NO_REGISTER && number == observer_code_return_register() ? &way->registers.link : NULL;
}

static struct known_word moved(const struct known_word *word, int64_t amount) {
  if (!word || !word->is_known)
    return (struct known_word){false, 0};
  return (struct known_word){true, word->value + (uint64_t)amount};
}

static struct known_word load(const struct path *path, const struct way *way, struct known_word at) {
  struct known_word result = {false, 0};
  if (!at.is_known)
    return result;
  for (int index = 0; index < way->stored_count; index++)
    if (way->stored[index].at == at.value)
      return way->stored[index].what;
  result.is_known = observer_walk_word(path->walk, at.value, &result.value);
  return result;
}

static void store(struct way *way, struct known_word at, struct known_word what) {
  if (!at.is_known)
    return;
  int kept = 0;
  for (int index = 0; index < way->stored_count; index++) {
    int64_t distance = (int64_t)(way->stored[index].at - at.value);
    if (distance <= -8 || distance >= 8)
      way->stored[kept++] = way->stored[index];
  }
  /* Those that are lowest on the stack were stored last, and are loaded first. */
  if (kept == STORED)
    kept--;
  way->stored[kept] = (struct stored){at.value, what};
  way->stored_count = kept + 1;
}

/* The way leaves the function, with AMOUNT bytes above the return address dropped. */
static void leave(struct path *path, const struct way *way, int64_t amount) {
  if (!way->registers.sp.is_known || way->registers.sp.value < path->lowest)
    return;
  struct return_place found = {.sp = way->registers.sp.value, .is_straight = way->is_straight};
  found.frame_pointer = way->registers.frame_pointer;
  if (observer_code_return_register() == CODE_NO_REGISTER) {
    found.return_address = load(path, way, way->registers.sp);
    found.sp += 8 + (uint64_t)amount;
  } else {
    found.return_address = way->registers.link;
  }
  struct return_place *place = path->place;
  if (path->returns++ == 0) {
    *place = found;
    return;
  }
  place->is_straight = false;
  path->disagrees |= place->sp != found.sp || place->return_address.is_known != found.return_address.is_known ||
                     place->return_address.value != found.return_address.value;
  if (place->frame_pointer.value != found.frame_pointer.value || !found.frame_pointer.is_known)
    place->frame_pointer.is_known = false;
}

/* Goes on at TARGET, where a jump of WAY leads, if that belongs to the function. */
static bool jump(struct path *path, struct way *way, uint64_t target) {
  struct code_range other;
  if (target >= path->function.start && target < path->function.end) {
    way->address = target;
    return true;
  }
  /* Another function in place of a call, or a part of this one that stands elsewhere. */
  if (path->bounded || (observer_walk_function(target, &other) && other.start == target))
    leave(path, way, 0);
  return false;
}

/* Does what OPERATION does. Returns whether the way goes on. */
static bool apply(struct path *path, struct way *way, const struct code_operation *operation, uint64_t next) {
  struct known_word *to = register_of(way, operation->to), *from = register_of(way, operation->from);
  uint64_t changed = observer_code_volatile_registers();
  switch (operation->kind) {
  case CODE_SET:
    if (to)
      *to = moved(from, operation->amount);
    break;
  case CODE_LOWER:
  case CODE_SHIFT_RIGHT:
  case CODE_SHIFT_LEFT:
  case CODE_LOAD_FIXED:
  case CODE_SET_FIXED:
    if (to)
      to->is_known = false;
    break;
  case CODE_ALIGN:
    if (to)
      to->value &= (uint64_t)operation->amount;
    break;
  case CODE_LOAD:
    if (to)
      *to = load(path, way, moved(from, operation->amount));
    break;
  case CODE_STORE:
    store(way, moved(to, operation->amount), moved(from, 0));
    break;
  case CODE_CLOBBER:
    changed = (uint64_t)operation->amount;
    __attribute__((fallthrough));
  case CODE_CALL:
  case CODE_CALL_REGISTER:
  case CODE_CALL_MEMORY:
  case CODE_CALL_FIXED:
    way->is_straight = false;
    if (changed >> CODE_FRAME_POINTER & 1)
      way->registers.frame_pointer.is_known = false;
    if (observer_code_return_register() != CODE_NO_REGISTER && (changed >> observer_code_return_register() & 1))
      way->registers.link.is_known = false;
    break;
  case CODE_BRANCH:
    way->is_straight = false;
    if (operation->target >= path->function.start && operation->target < path->function.end)
      branch_off(way, operation->target);
    break;
  case CODE_JUMP:
    return operation->target == next ? true : jump(path, way, operation->target);
  case CODE_JUMP_SLOT:
    leave(path, way, 0);
    return false;
  case CODE_RETURN:
    leave(path, way, operation->amount);
    return false;
  case CODE_JUMP_ANYWHERE: /* to a function in place of a call, or by a table within this one */
  case CODE_END:
    return false;
  default:
    break;
  }
  return true;
}

/* Goes WAY to its end. */
static void go(struct path *path, struct way *way) {
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  for (bool goes_on = true; goes_on && path->instructions < INSTRUCTIONS_MAX;) {
    uint64_t address = way->address;
    if (address < path->function.start || address >= path->function.end || !visit(address))
      return;
    path->instructions++;
    size_t length = observer_code_read(address, operations, &count);
    if (length == 0)
      return;
    way->address += length;
    for (int index = 0; index < count && goes_on; index++)
      goes_on = apply(path, way, &operations[index], address + length);
  }
}

bool observer_return_path(struct walk *walk, struct code_range function, bool bounded, uint64_t pc,
                          const struct frame_registers *registers, struct return_place *place) {
  struct path path = {.walk = walk, .function = function, .bounded = bounded, .place = place};
  path.lowest = registers->sp.value;
  here()->use++;
  here()->way_count = 0;
  here()->way = (struct way){.address = pc, .registers = *registers, .is_straight = true};
  go(&path, &here()->way);
  while (here()->way_count > 0 && path.returns < RETURNS_MAX && path.instructions < INSTRUCTIONS_MAX) {
    here()->way = here()->ways[--here()->way_count];
    go(&path, &here()->way);
  }
  return path.returns > 0 && !path.disagrees;
}

#endif
