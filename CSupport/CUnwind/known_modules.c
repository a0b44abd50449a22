#include "known_modules.h"

#include <elf.h>
#include <string.h>

enum { MODULES_MAX = 48, CONSTANT_MAX = 4, SEGMENTS_MAX = 24, NOTES_BYTES_MAX = 256 };

struct known_module {
  struct unwind_module module;
  uint64_t identity; /* 0: cannot be distinguished from another module at its address */
  struct {
    uint64_t start, end;
  } constant[CONSTANT_MAX];
};

struct known_modules {
  uint32_t count;
  uint32_t last;         /* index of the last result */
  bool learnt_elsewhere; /* also set if the table is full */
  struct known_module known[MODULES_MAX];
  Elf64_Phdr segments[SEGMENTS_MAX];
  uint8_t notes[NOTES_BYTES_MAX];
};

size_t cunwind_modules_bytes(void) { return sizeof(struct known_modules); }

static uint64_t mixed(uint64_t hash, const void *data, size_t length) {
  for (size_t at = 0; at + sizeof(uint32_t) <= length; at += sizeof(uint32_t)) {
    uint32_t word;
    memcpy(&word, (const uint8_t *)data + at, sizeof word);
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
  }
  return hash;
}

static bool read(struct unwinder *unwinder, uint64_t address, void *destination, size_t length) {
  return unwinder->process.read(unwinder->process.context, address, destination, length);
}

/* Mixes the build ID in the notes at ADDRESS into *HASH (elf(5), "Notes (Nhdr)"). */
static bool mix_build_id(struct unwinder *unwinder, uint64_t address, uint64_t length, uint64_t *hash) {
  uint8_t *notes = unwinder->modules->notes;
  Elf64_Nhdr note;
  if (length > NOTES_BYTES_MAX || !read(unwinder, address, notes, length))
    return false;
  for (size_t at = 0; at + sizeof note <= length;) {
    memcpy(&note, notes + at, sizeof note);
    size_t name = at + sizeof note, content = name + ((size_t)note.n_namesz + 3) / 4 * 4;
    size_t end = content + ((size_t)note.n_descsz + 3) / 4 * 4;
    if (end > length)
      return false;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU && note.n_descsz >= 8 &&
        memcmp(notes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0) {
      *hash = mixed(*hash, notes + content, end - content);
      return true;
    }
    at = end;
  }
  return false;
}

/* Reads the identity and read-only segments of KNOWN's module. */
static void read_head(struct unwinder *unwinder, struct known_module *known) {
  Elf64_Ehdr head;
  Elf64_Phdr *segments = unwinder->modules->segments;
  uint64_t start = known->module.start, base = 0, hash = 1;
  known->identity = 0;
  memset(known->constant, 0, sizeof known->constant);
  if (!read(unwinder, start, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof segments[0] || head.e_phnum > SEGMENTS_MAX ||
      !read(unwinder, start + head.e_phoff, segments, head.e_phnum * sizeof segments[0]))
    return;
  bool has_base = false, has_id = false;
  int count = 0;
  for (int index = 0; index < head.e_phnum && !has_base; index++)
    if (segments[index].p_type == PT_LOAD) {
      /* The first mapping contains the beginning of the file with the ELF header. */
      base = start - (segments[index].p_vaddr - segments[index].p_offset);
      has_base = true;
    }
  hash = mixed(mixed(hash, &head, sizeof head), segments, head.e_phnum * sizeof segments[0]);
  for (int index = 0; index < head.e_phnum && has_base; index++) {
    const Elf64_Phdr *segment = &segments[index];
    if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W) == 0 && count < CONSTANT_MAX) {
      known->constant[count].start = base + segment->p_vaddr;
      known->constant[count++].end = base + segment->p_vaddr + segment->p_filesz;
    }
    if (segment->p_type == PT_NOTE && !has_id)
      has_id = mix_build_id(unwinder, base + segment->p_vaddr, segment->p_filesz, &hash);
  }
  if (has_id)
    known->identity = hash != 0 ? hash : 1;
}

static bool is_same(const struct unwind_module *one, const struct unwind_module *other) {
  return one->start == other->start && one->end == other->end && one->eh_frame_hdr == other->eh_frame_hdr;
}

static const struct known_module *known_of(struct unwinder *unwinder, const struct unwind_module *module) {
  struct known_modules *modules = unwinder->modules;
  if (modules->last < modules->count && is_same(&modules->known[modules->last].module, module))
    return &modules->known[modules->last];
  for (uint32_t index = 0; index < modules->count; index++)
    if (is_same(&modules->known[index].module, module)) {
      modules->last = index;
      return &modules->known[index];
    }
  if (modules->count == MODULES_MAX) {
    modules->learnt_elsewhere = true;
    return NULL;
  }
  modules->last = modules->count++;
  struct known_module *known = &modules->known[modules->last];
  known->module = *module;
  read_head(unwinder, known);
  return known;
}

void cunwind_module_met(struct unwinder *unwinder, const struct unwind_module *module) {
  (void)known_of(unwinder, module);
}

bool cunwind_is_constant(struct unwinder *unwinder, uint64_t address) {
  struct unwind_module module;
  if (!unwinder->process.find_module(unwinder->process.context, address, &module))
    return false;
  const struct known_module *known = known_of(unwinder, &module);
  for (int index = 0; known && index < CONSTANT_MAX; index++)
    if (address >= known->constant[index].start && address < known->constant[index].end)
      return true;
  return false;
}

void cunwind_learnt_elsewhere(struct unwinder *unwinder) { unwinder->modules->learnt_elsewhere = true; }

bool cunwind_modules_remain(struct unwinder *unwinder) {
  struct known_modules *modules = unwinder->modules;
  for (uint32_t index = 0; index < modules->count && !modules->learnt_elsewhere; index++) {
    const struct known_module *known = &modules->known[index];
    struct known_module now;
    if (known->identity == 0 ||
        !unwinder->process.find_module(unwinder->process.context, known->module.start, &now.module) ||
        !is_same(&known->module, &now.module))
      return false;
    read_head(unwinder, &now);
    if (now.identity != known->identity)
      return false;
  }
  return !modules->learnt_elsewhere;
}

void cunwind_modules_forget(struct unwinder *unwinder) {
  unwinder->modules->count = 0;
  unwinder->modules->learnt_elsewhere = false;
}
