#define _GNU_SOURCE
#include "clinux_thread_pointer.h"

#include "clinux_context.h"
#include "clinux_memory.h"
#include "clinux_task.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

struct field {
  uint32_t bits, count, offset;
};

enum { POINTER_BITS = 64, NODE_BITS = 2 * POINTER_BITS, ID_BITS = 32 };

/* A list that changes during the walk might never return to its head. */
enum { NODES_MAX = 1 << 16, LISTS = 2 };

/* On x86-64 the thread pointer points to the thread's structure, whose third word points to itself (tcbhead_t of
 * sysdeps/x86_64/nptl/tls.h). On aarch64 the thread pointer points behind the structure. */
#if defined(__x86_64__)
enum { IS_BEHIND = 0, HAS_ITSELF = 1, ITSELF = 16 };
#else
enum { IS_BEHIND = 1, HAS_ITSELF = 0, ITSELF = 0 };
#endif

static struct layout {
  uint64_t heads[LISTS];
  uint32_t node;
  uint32_t tid;
  uint32_t behind; /* offset of the thread pointer in the structure */
  int64_t robust;  /* offset of the robust mutex list from the thread pointer; 0: unknown */
  bool is_known;
} layout;

static bool find_field(const char *name, uint32_t bits, uint32_t *offset) {
  const struct field *found = dlsym(RTLD_DEFAULT, name);
  if (!found || found->bits != bits)
    return false;
  *offset = found->offset;
  return true;
}

bool clinux_thread_pointer_is(uint64_t pointer, int32_t tid) {
  if (!layout.is_known || pointer <= layout.behind)
    return false;
  uint64_t start = pointer - layout.behind, itself = pointer;
  int32_t there = 0;
  return clinux_memory_read(start + layout.tid, &there, sizeof there) && there == tid &&
         (!HAS_ITSELF || clinux_memory_read(start + ITSELF, &itself, sizeof itself)) && itself == pointer;
}

enum { PAGE = 4096 };
#define STACK_MAX (UINT64_C(1) << 40)

/* The offset in struct pthread (nptl/descr.h) of stackblock, stackblock_size and guardsize; 0: unknown. */
static _Atomic uint32_t stack_offset;

void clinux_thread_pointer_learn_stacks(void) {
  const uint32_t *bytes = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
  if (!layout.is_known || !bytes || atomic_load(&stack_offset) != 0)
    return;
  /* pthread_getattr_np(3) would allocate, and reserve an arena for this thread. */
  const uint64_t *words = (const uint64_t *)pthread_self();
  uint64_t self = (uint64_t)pthread_self(), here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  for (uint32_t at = 1; at + 3 <= *bytes / sizeof *words; at++) {
    uint64_t start = words[at], size = words[at + 1], guard = words[at + 2];
    /* The C library places the thread's structure at the end of its stack. */
    if (start != 0 && start < here && here < self && size < STACK_MAX && self < start + size && guard < here - start &&
        ((start | size | guard) & (PAGE - 1)) == 0) {
      atomic_store(&stack_offset, at * (uint32_t)sizeof *words);
      return;
    }
  }
}

bool clinux_thread_pointer_is_known(void) { return layout.is_known; }

uint64_t clinux_thread_pointer_stack_bytes(uint64_t pointer) {
  uint32_t offset = atomic_load(&stack_offset);
  uint64_t bounds[2];
  bool is_known = offset != 0 && clinux_memory_read(pointer - layout.behind + offset, bounds, sizeof bounds);
  return is_known && bounds[0] != 0 ? bounds[1] : 0; /* the main thread's stack has no start */
}

uint64_t clinux_thread_pointer_own(void) { return (uint64_t)pthread_self() + layout.behind; }

struct storage_search {
  uint64_t code, begin, end;
};

static int find_storage(struct dl_phdr_info *module, size_t size, void *context) {
  struct storage_search *search = context;
  const ElfW(Phdr) *storage = NULL;
  bool has_code = false;
  for (int index = 0; index < module->dlpi_phnum; index++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[index];
    if (part->p_type == PT_TLS)
      storage = part;
    has_code |= part->p_type == PT_LOAD && search->code - module->dlpi_addr - part->p_vaddr < part->p_memsz;
  }
  if (!has_code)
    return 0;
  if (storage && size >= offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof(void *) && module->dlpi_tls_data) {
    search->begin = (uint64_t)(uintptr_t)module->dlpi_tls_data;
    search->end = search->begin + storage->p_memsz;
  }
  return 1;
}

int clinux_thread_pointer_storage(const void *code, int64_t *begin, int64_t *end) {
  struct storage_search search = {.code = (uint64_t)(uintptr_t)code};
  if (!layout.is_known || dl_iterate_phdr(find_storage, &search) != 1 || search.end == 0)
    return ENOTSUP;
  *begin = (int64_t)(search.begin - clinux_thread_pointer_own());
  *end = (int64_t)(search.end - clinux_thread_pointer_own());
  return 0;
}

/* TID 0 is the calling thread. */
static bool robust_list(int32_t tid, uint64_t *list) {
  size_t bytes;
  int saved_errno = errno;
  bool is_known = syscall(SYS_get_robust_list, tid, list, &bytes) == 0;
  errno = saved_errno;
  return is_known;
}

int clinux_thread_pointer_start(void) {
  uint32_t lists[LISTS], next;
  const uint32_t *bytes = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
  uint64_t global = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "_rtld_global");
  struct layout found = {0};
  if (layout.is_known)
    return 0;
  if (!bytes || !global || !find_field("_thread_db_rtld_global__dl_stack_used", NODE_BITS, &lists[0]) ||
      !find_field("_thread_db_rtld_global__dl_stack_user", NODE_BITS, &lists[1]) ||
      !find_field("_thread_db_pthread_list", NODE_BITS, &found.node) ||
      !find_field("_thread_db_list_t_next", POINTER_BITS, &next) || next != 0 ||
      !find_field("_thread_db_pthread_tid", ID_BITS, &found.tid))
    return ENOTSUP;
  for (int list = 0; list < LISTS; list++)
    found.heads[list] = global + lists[list];
  found.behind = IS_BEHIND ? *bytes : 0;
  found.is_known = true;
  layout = found;
  layout.is_known = clinux_thread_pointer_is(clinux_thread_pointer_own(), clinux_task_self());
  uint64_t list;
  if (layout.is_known && robust_list(0, &list) && list != 0)
    layout.robust = (int64_t)(list - clinux_thread_pointer_own());
  return layout.is_known ? 0 : ENOTSUP;
}

bool clinux_thread_pointer_next(struct clinux_thread_walk *walk) {
  for (; walk->list < LISTS && layout.is_known; walk->list++, walk->node = 0) {
    uint64_t head = layout.heads[walk->list];
    bool is_there = walk->node != 0 || clinux_memory_read(head, &walk->node, sizeof walk->node);
    while (is_there && walk->node != head && walk->seen++ < NODES_MAX) {
      uint64_t node = walk->node;
      walk->here = (struct clinux_thread_pointer){.pointer = node - layout.node + layout.behind};
      is_there = clinux_memory_read(node, &walk->node, sizeof walk->node);
      /* A thread has no ID before its start and after its end. */
      if (clinux_memory_read(node - layout.node + layout.tid, &walk->here.tid, sizeof walk->here.tid) &&
          walk->here.tid > 0 && clinux_thread_pointer_is(walk->here.pointer, walk->here.tid)) {
        if (!is_there)
          walk->node = head;
        return true;
      }
    }
  }
  return false;
}

enum { KNOWN = 64 };
static struct clinux_thread_pointer known[CLINUX_WATCHERS_CONTEXT + 1][KNOWN];

bool clinux_thread_pointer_find(int32_t tid, uint64_t *pointer) {
  struct clinux_thread_pointer *found = &known[clinux_context][(uint32_t)tid % KNOWN];
  bool is_there = found->tid == tid && clinux_thread_pointer_is(found->pointer, tid);
  uint64_t list;
  if (!is_there && layout.robust != 0 && robust_list(tid, &list)) {
    *pointer = list - (uint64_t)layout.robust;
    is_there = list != 0 && clinux_thread_pointer_is(*pointer, tid);
    if (is_there)
      *found = (struct clinux_thread_pointer){*pointer, tid};
    return is_there;
  }
  struct clinux_thread_walk walk = {0};
  while (!is_there && clinux_thread_pointer_next(&walk))
    if (walk.here.tid == tid) {
      *found = walk.here;
      is_there = true;
    }
  *pointer = found->pointer;
  return is_there;
}

size_t clinux_thread_pointer_list(struct clinux_thread_pointer *found, size_t max) {
  struct clinux_thread_walk walk = {0};
  size_t count = 0;
  while (count < max && clinux_thread_pointer_next(&walk))
    found[count++] = walk.here;
  return count;
}
