#include "return_path.h"

#include "decode.h"
#include "process_memory.h"
#include "unwind_tables.h"

/* Bounds on the work for one frame: instructions, pending paths, compared returns, and stored words per path. */
enum { INSTRUCTIONS_MAX = 2000, PATHS = 48, RETURNS_MAX = 4, STORED = 12, VISITED = 4096 };

struct stored {
  uint64_t at;
  struct known_word what;
};

struct path {
  uint64_t address;
  struct frame_registers registers;
  bool is_straight;
  int stored_count;
  struct stored stored[STORED];
};

struct search {
  struct walk *walk;
  struct code_range function;
  bool bounded;
  uint64_t lowest; /* the initial stack pointer; return addresses are not below it */
  int instructions, returns;
  bool disagrees;
  struct return_place *place;
};

struct return_paths {
  struct path path; /* the current path */
  struct path paths[PATHS];
  int path_count;
  uint32_t use; /* number of the current search; other entries of VISITED are outdated */
  struct {
    uint32_t use, address;
  } visited[VISITED];
};

size_t cunwind_return_paths_bytes(void) { return sizeof(struct return_paths); }

/* Marks the instruction at ADDRESS. Returns false if it was already marked. INSTRUCTIONS_MAX keeps the table from
 * filling up. */
static bool visit(struct return_paths *room, uint64_t address) {
  uint32_t low = (uint32_t)address;
  for (uint32_t place = (low ^ low >> 12) % VISITED;; place = (place + 1) % VISITED) {
    if (room->visited[place].use == room->use && room->visited[place].address == low)
      return false;
    if (room->visited[place].use != room->use) {
      room->visited[place].use = room->use;
      room->visited[place].address = low;
      return true;
    }
  }
}

static void branch_off(struct return_paths *room, const struct path *path, uint64_t address) {
  if (room->path_count == PATHS)
    return;
  struct path *other = &room->paths[room->path_count++];
  *other = *path;
  other->address = address;
}

static struct known_word *register_of(const struct unwind_architecture *architecture, struct path *path, int number) {
  if (number == architecture->sp)
    return &path->registers.sp;
  if (number == architecture->frame_pointer)
    return &path->registers.frame_pointer;
  return number != UNWIND_NO_REGISTER && number == architecture->link ? &path->registers.link : NULL;
}

static struct known_word moved(const struct known_word *word, int64_t amount) {
  if (!word || !word->is_known)
    return (struct known_word){false, 0};
  return (struct known_word){true, word->value + (uint64_t)amount};
}

static struct known_word load(const struct search *search, const struct path *path, struct known_word at) {
  struct known_word result = {false, 0};
  if (!at.is_known)
    return result;
  for (int index = 0; index < path->stored_count; index++)
    if (path->stored[index].at == at.value)
      return path->stored[index].what;
  result.is_known = cunwind_word(search->walk, at.value, &result.value);
  return result;
}

static void store(struct path *path, struct known_word at, struct known_word what) {
  if (!at.is_known)
    return;
  int kept = 0;
  for (int index = 0; index < path->stored_count; index++) {
    int64_t distance = (int64_t)(path->stored[index].at - at.value);
    if (distance <= -8 || distance >= 8)
      path->stored[kept++] = path->stored[index];
  }
  if (kept == STORED)
    kept--;
  path->stored[kept] = (struct stored){at.value, what};
  path->stored_count = kept + 1;
}

static void leave(struct search *search, const struct path *path, int64_t amount) {
  const struct unwind_architecture *architecture = search->walk->unwinder->architecture;
  if (!path->registers.sp.is_known || path->registers.sp.value < search->lowest)
    return;
  struct return_place found = {.sp = path->registers.sp.value, .is_straight = path->is_straight};
  found.frame_pointer = path->registers.frame_pointer;
  if (architecture->link == UNWIND_NO_REGISTER) {
    found.return_address = load(search, path, path->registers.sp);
    found.sp += 8 + (uint64_t)amount;
  } else {
    found.return_address = path->registers.link;
  }
  struct return_place *place = search->place;
  if (search->returns++ == 0) {
    *place = found;
    return;
  }
  place->is_straight = false;
  search->disagrees |= place->sp != found.sp || place->return_address.is_known != found.return_address.is_known ||
                       place->return_address.value != found.return_address.value;
  if (place->frame_pointer.value != found.frame_pointer.value || !found.frame_pointer.is_known)
    place->frame_pointer.is_known = false;
}

static bool jump(struct search *search, struct path *path, uint64_t target) {
  struct code_range other;
  if (target >= search->function.start && target < search->function.end) {
    path->address = target;
    return true;
  }
  /* A tail call, or an outlined part of this function. */
  if (search->bounded || (cunwind_table_function(search->walk->unwinder, target, &other) && other.start == target))
    leave(search, path, 0);
  return false;
}

static bool apply(struct search *search, struct path *path, const struct code_operation *operation) {
  const struct unwind_architecture *architecture = search->walk->unwinder->architecture;
  struct known_word *to = register_of(architecture, path, operation->to);
  struct known_word *from = register_of(architecture, path, operation->from);
  uint64_t changed = architecture->call_clobbered;
  switch (operation->kind) {
  case CODE_SET:
  case CODE_SET_NUMBER:
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
      *to = load(search, path, moved(from, operation->amount));
    break;
  case CODE_STORE:
    store(path, moved(to, operation->amount), moved(from, 0));
    break;
  case CODE_CLOBBER:
    changed = (uint64_t)operation->amount;
    __attribute__((fallthrough));
  case CODE_CALL:
  case CODE_CALL_REGISTER:
  case CODE_CALL_MEMORY:
  case CODE_CALL_FIXED:
    path->is_straight = false;
    if (changed >> architecture->frame_pointer & 1)
      path->registers.frame_pointer.is_known = false;
    if (architecture->link != UNWIND_NO_REGISTER && (changed >> architecture->link & 1))
      path->registers.link.is_known = false;
    break;
  case CODE_BRANCH:
    path->is_straight = false;
    if (operation->target >= search->function.start && operation->target < search->function.end)
      branch_off(search->walk->unwinder->return_paths, path, operation->target);
    break;
  case CODE_JUMP:
    return jump(search, path, operation->target);
  case CODE_JUMP_GOT:
    leave(search, path, 0);
    return false;
  case CODE_RETURN:
    leave(search, path, operation->amount);
    return false;
  case CODE_JUMP_ANYWHERE:
  case CODE_END:
    return false;
  default:
    break;
  }
  return true;
}

static void go(struct search *search, struct path *path) {
  struct unwinder *unwinder = search->walk->unwinder;
  struct code_operation operations[CODE_OPERATIONS];
  int count;
  for (bool goes_on = true; goes_on && search->instructions < INSTRUCTIONS_MAX;) {
    uint64_t address = path->address;
    if (address < search->function.start || address >= search->function.end || !visit(unwinder->return_paths, address))
      return;
    search->instructions++;
    size_t length = cunwind_decode_at(unwinder, address, operations, &count);
    if (length == 0)
      return;
    path->address += length;
    for (int index = 0; index < count && goes_on; index++)
      goes_on = apply(search, path, &operations[index]);
  }
}

bool cunwind_return_path(struct walk *walk, struct code_range function, bool bounded, uint64_t pc,
                         const struct frame_registers *registers, struct return_place *place) {
  struct search search = {.walk = walk, .function = function, .bounded = bounded, .place = place};
  struct return_paths *room = walk->unwinder->return_paths;
  search.lowest = registers->sp.value;
  room->use++;
  room->path_count = 0;
  room->path = (struct path){.address = pc, .registers = *registers, .is_straight = true};
  go(&search, &room->path);
  while (room->path_count > 0 && search.returns < RETURNS_MAX && search.instructions < INSTRUCTIONS_MAX) {
    room->path = room->paths[--room->path_count];
    go(&search, &room->path);
  }
  return search.returns > 0 && !search.disagrees;
}
