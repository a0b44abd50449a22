#define _GNU_SOURCE
#include "clinux_memory.h"

#include "clinux_clock.h"
#include "clinux_context.h"
#include "clinux_descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

enum { PAGE = 4096, WINDOW_BYTES = 16 << 10 };

static _Atomic int way = CLINUX_MEMORY_BY_CALL;

struct window {
  atomic_flag is_taken;
  _Atomic bool is_open;
  struct clinux_descriptor file;
  long mark; /* a file position that no other open file has */
  uint8_t *bytes;
};
enum { WINDOWS = CLINUX_WATCHERS_CONTEXT + 1 };
static struct window windows[WINDOWS];

struct sources {
  struct clinux_descriptor file, pipe_reader, pipe_writer;
};
#define NO_SOURCES ((struct sources){CLINUX_NO_DESCRIPTOR, CLINUX_NO_DESCRIPTOR, CLINUX_NO_DESCRIPTOR})

/* Element 0 is for the service's descriptor table, the others for contexts with their own tables. */
static struct sources all_sources[WINDOWS] = {[0 ... WINDOWS - 1] = {{.number = -1}, {.number = -1}, {.number = -1}}};

static struct sources *own_sources(void) { return &all_sources[clinux_descriptor_table() != 0 ? clinux_context : 0]; }

/* One thread at a time for each descriptor table. */
static void open_file(struct sources *sources) {
  if (!clinux_descriptor_is_ours(&sources->file))
    sources->file = clinux_descriptor_keep(open("/proc/thread-self/mem", O_RDONLY | O_CLOEXEC));
}

static void open_pipe(struct sources *sources) {
  int ends[2];
  if ((clinux_descriptor_is_ours(&sources->pipe_reader) && clinux_descriptor_is_ours(&sources->pipe_writer)) ||
      pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return;
  clinux_descriptor_close(&sources->pipe_reader);
  clinux_descriptor_close(&sources->pipe_writer);
  sources->pipe_reader = clinux_descriptor_keep(ends[0]);
  sources->pipe_writer = clinux_descriptor_keep(ends[1]);
}

static bool has_file(struct sources *sources) {
  static atomic_flag is_taken = ATOMIC_FLAG_INIT;
  if (clinux_descriptor_is_ours(&sources->file))
    return true;
  if (atomic_flag_test_and_set_explicit(&is_taken, memory_order_acquire))
    return false;
  open_file(sources);
  atomic_flag_clear_explicit(&is_taken, memory_order_release);
  return clinux_descriptor_is_ours(&sources->file);
}

/* Whether the descriptor of WINDOW still refers to its file: other code might have closed and reused the number. Needs
 * less of a handler's stack than clinux_descriptor_is_ours. */
static bool is_its_own(const struct window *window) {
  return syscall(SYS_lseek, window->file.number, 0L, SEEK_CUR) == window->mark;
}

/* RLIMIT_FSIZE also applies to files in memory. */
static bool is_limited(void) {
  struct rlimit limit;
  return syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 || limit.rlim_cur < WINDOW_BYTES;
}

/* Returns the number of readable bytes copied, or -1 if there is no window. */
static long copy_through_window(uint64_t address, void *destination, size_t length) {
  struct window *window = &windows[clinux_context];
  /* Threads in a context block SIGXFSZ, so they check the limit only after a failed write. In other threads, SIGXFSZ
   * would end the process. */
  bool is_own = clinux_context != 0 && clinux_context != CLINUX_HANDLERS_CONTEXT;
  if (!atomic_load_explicit(&window->is_open, memory_order_acquire) || (!is_own && is_limited()))
    return -1;
  bool is_mine = false;
  for (int attempt = 0; attempt < 1000 && !is_mine; attempt++) {
    is_mine = !atomic_flag_test_and_set_explicit(&window->is_taken, memory_order_acquire);
    if (!is_mine)
      sched_yield();
  }
  if (!is_mine)
    return 0;
  long result = -1;
  if (is_its_own(window)) {
    size_t copied = 0;
    while (copied < length) {
      size_t piece = length - copied < WINDOW_BYTES ? length - copied : WINDOW_BYTES;
      long got = syscall(SYS_pwrite64, window->file.number, (const void *)(uintptr_t)(address + copied), piece, 0L);
      if (got <= 0)
        break;
      memcpy((uint8_t *)destination + copied, window->bytes, (size_t)got);
      /* The window must not keep contents of stacks. */
      memset(window->bytes, 0, (size_t)got);
      copied += (size_t)got;
      if ((size_t)got < piece)
        break;
    }
    result = is_own && copied < length && is_limited() ? -1 : (long)copied;
  } else {
    atomic_store_explicit(&window->is_open, false, memory_order_relaxed);
  }
  atomic_flag_clear_explicit(&window->is_taken, memory_order_release);
  return result;
}

static size_t read_some_by_file(uint64_t address, void *destination, size_t length) {
  struct sources *sources = own_sources();
  /* The address becomes a file position, which is signed. */
  if (address > INT64_MAX - length || !has_file(sources))
    return 0;
  long got = syscall(SYS_pread64, sources->file.number, destination, length, (long)address);
  return got > 0 ? (size_t)got : 0;
}

static bool read_by_file(uint64_t address, void *destination, size_t length) {
  return read_some_by_file(address, destination, length) == length;
}

static bool is_refused(int error) { return error == EPERM || error == ENOSYS; }

/* Passes the thread ID: process_vm_readv(2) rejects the process ID after the main thread has exited. */
static bool read_by_call(uint64_t address, void *destination, size_t length) {
  struct iovec local = {destination, length};
  struct iovec remote = {(void *)(uintptr_t)address, length};
  long got = syscall(SYS_process_vm_readv, (pid_t)syscall(SYS_gettid), &local, 1UL, &remote, 1UL, 0UL);
  return got >= 0 && (size_t)got == length;
}

/* Reads by process_vm_readv(2) or, if a filter refuses this call, by file. The call was not tested at the start if a
 * window was then in use. */
static bool read_by_call_or_file(uint64_t address, void *destination, size_t length) {
  return read_by_call(address, destination, length) ||
         (is_refused(errno) && read_by_file(address, destination, length));
}

/* Writing unmapped memory to a pipe fails with EFAULT. The pipe is empty before and after. */
static bool copy_through_pipe(uint64_t address, void *destination, size_t length) {
  /* If a file of the service has reused the pipe's number, memory must not be written to that file. */
  struct sources *sources = own_sources();
  open_pipe(sources);
  if (!clinux_descriptor_is_ours(&sources->pipe_reader) || !clinux_descriptor_is_ours(&sources->pipe_writer))
    return false;
  for (size_t copied = 0; copied < length;) {
    size_t piece = PAGE - (size_t)((address + copied) % PAGE);
    if (piece > length - copied)
      piece = length - copied;
    long written = syscall(SYS_write, sources->pipe_writer.number, (const void *)(uintptr_t)(address + copied), piece);
    if (written <= 0)
      return false;
    if (syscall(SYS_read, sources->pipe_reader.number, (uint8_t *)destination + copied, (size_t)written) != written)
      return false;
    copied += (size_t)written;
  }
  return true;
}

/* One thread at a time. */
static bool read_by_pipe(uint64_t address, void *destination, size_t length) {
  static atomic_flag is_taken = ATOMIC_FLAG_INIT;
  for (int attempt = 0; attempt < 1000; attempt++) {
    if (!atomic_flag_test_and_set_explicit(&is_taken, memory_order_acquire)) {
      bool is_read = copy_through_pipe(address, destination, length);
      atomic_flag_clear_explicit(&is_taken, memory_order_release);
      return is_read;
    }
    sched_yield();
  }
  return false;
}

bool clinux_memory_read(uint64_t address, void *destination, size_t length) {
  int saved_errno = errno;
  bool is_read = false;
  int chosen = atomic_load_explicit(&way, memory_order_relaxed);
  if (chosen == CLINUX_MEMORY_BY_WINDOW) {
    long copied = copy_through_window(address, destination, length);
    is_read = copied == (long)length;
    if (copied < 0)
      chosen = CLINUX_MEMORY_BY_CALL;
  }
  switch (chosen) {
  case CLINUX_MEMORY_BY_CALL:
    is_read = read_by_call_or_file(address, destination, length);
    break;
  case CLINUX_MEMORY_BY_FILE:
    is_read = read_by_file(address, destination, length);
    break;
  case CLINUX_MEMORY_BY_PIPE:
    is_read = read_by_pipe(address, destination, length);
    break;
  default:
    break;
  }
  errno = saved_errno;
  return is_read;
}

/* process_vm_readv(2) transfers only whole pieces, so each piece is one page. */
static size_t read_some_by_call(uint64_t address, void *destination, size_t length) {
  enum { BATCH = 8 };
  pid_t self = (pid_t)syscall(SYS_gettid);
  size_t copied = 0;
  while (copied < length) {
    struct iovec local[BATCH], remote[BATCH];
    size_t asked = 0;
    int count = 0;
    for (; count < BATCH && copied + asked < length; count++) {
      uint64_t from = address + copied + asked;
      size_t left = length - copied - asked;
      size_t to_page_end = PAGE - (size_t)(from % PAGE);
      size_t piece = left < to_page_end ? left : to_page_end;
      remote[count] = (struct iovec){(void *)(uintptr_t)from, piece};
      local[count] = (struct iovec){(uint8_t *)destination + copied + asked, piece};
      asked += piece;
    }
    long got = syscall(SYS_process_vm_readv, self, local, (unsigned long)count, remote, (unsigned long)count, 0UL);
    if (got < 0 && is_refused(errno))
      return copied + read_some_by_file(address + copied, (uint8_t *)destination + copied, length - copied);
    if (got > 0)
      copied += (size_t)got;
    if (got < 0 || (size_t)got < asked)
      break;
  }
  return copied;
}

size_t clinux_memory_read_some(uint64_t address, void *destination, size_t length) {
  int saved_errno = errno;
  size_t copied = 0;
  int chosen = atomic_load_explicit(&way, memory_order_relaxed);
  if (chosen == CLINUX_MEMORY_BY_WINDOW) {
    long through = copy_through_window(address, destination, length);
    if (through < 0)
      chosen = CLINUX_MEMORY_BY_CALL;
    else
      copied = (size_t)through;
  }
  switch (chosen) {
  case CLINUX_MEMORY_BY_CALL:
    copied = read_some_by_call(address, destination, length);
    break;
  case CLINUX_MEMORY_BY_FILE:
    copied = read_some_by_file(address, destination, length);
    break;
  default:
    break;
  }
  errno = saved_errno;
  return copied;
}

/* Runs in the child after fork(2), where the windows are not mapped and the files and the pipe are the parent's. Their
 * descriptors are closed by clinux_descriptor.h. */
static void forget_parent(void) {
  for (int index = 0; index < WINDOWS; index++) {
    all_sources[index] = NO_SOURCES;
    struct window *window = &windows[index];
    window->file = CLINUX_NO_DESCRIPTOR;
    window->bytes = NULL;
    atomic_flag_clear_explicit(&window->is_taken, memory_order_relaxed);
    atomic_store_explicit(&window->is_open, false, memory_order_relaxed);
  }
  atomic_store_explicit(&way, CLINUX_MEMORY_BY_CALL, memory_order_relaxed);
}

/* Does not close the window's former descriptor: if its number refers to another file, it belongs to other code. */
static void open_window(struct window *window) {
  if (window->bytes && clinux_descriptor_is_ours(&window->file)) {
    atomic_store_explicit(&window->is_open, true, memory_order_release);
    return;
  }
  int descriptor = (int)syscall(SYS_memfd_create, "culprit", 1U /* MFD_CLOEXEC */);
  void *bytes = MAP_FAILED;
  if (descriptor >= 0 && ftruncate(descriptor, WINDOW_BYTES) == 0)
    bytes = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (bytes == MAP_FAILED) {
    if (descriptor >= 0)
      close(descriptor);
    return;
  }
  /* Accesses each page now: the first access waits for the lock of the address space. */
  memset(bytes, 0, WINDOW_BYTES);
  madvise(bytes, WINDOW_BYTES, MADV_DONTDUMP);
  madvise(bytes, WINDOW_BYTES, MADV_DONTFORK);
  if (window->bytes)
    munmap(window->bytes, WINDOW_BYTES);
  window->mark = (long)(UINT64_C(1) << 61 | (clinux_clock_ns() ^ (uint64_t)(uintptr_t)bytes << 8) >> 8);
  lseek(descriptor, window->mark, SEEK_SET);
  window->file = clinux_descriptor_keep(descriptor);
  window->bytes = bytes;
  atomic_store_explicit(&window->is_open, true, memory_order_release);
}

static void open_windows(void) {
  if (is_limited())
    return;
  open_window(&windows[0]);
  open_window(&windows[CLINUX_HANDLERS_CONTEXT]);
  open_window(&windows[clinux_context]);
}

void clinux_memory_start_context(void) {
  struct window *window = &windows[clinux_context];
  /* The descriptor belongs to the table of an ended thread. */
  if (window->file.table != 0)
    window->file = CLINUX_NO_DESCRIPTOR;
  if (clinux_descriptor_table() != 0)
    *own_sources() = NO_SOURCES;
  if (atomic_load_explicit(&way, memory_order_relaxed) == CLINUX_MEMORY_BY_WINDOW && !is_limited())
    open_window(window);
}

enum clinux_memory_way clinux_memory_start(void) {
  static bool is_guarded;
  if (!is_guarded)
    is_guarded = pthread_atfork(NULL, NULL, forget_parent) == 0;
  uint64_t known = UINT64_C(0x0123456789abcdef);
  uint64_t address = (uint64_t)(uintptr_t)&known;
  for (int tried = CLINUX_MEMORY_BY_WINDOW; tried < CLINUX_MEMORY_UNREADABLE; tried++) {
    if (tried == CLINUX_MEMORY_BY_WINDOW)
      open_windows();
    if (tried == CLINUX_MEMORY_BY_FILE)
      open_file(own_sources());
    if (tried == CLINUX_MEMORY_BY_PIPE)
      open_pipe(own_sources());
    atomic_store_explicit(&way, tried, memory_order_relaxed);
    uint64_t found = 0;
    bool has_windows = atomic_load_explicit(&windows[clinux_context].is_open, memory_order_relaxed);
    bool is_read = tried == CLINUX_MEMORY_BY_CALL ? read_by_call(address, &found, sizeof found)
                                                  : clinux_memory_read(address, &found, sizeof found);
    if ((tried != CLINUX_MEMORY_BY_WINDOW || has_windows) && is_read && found == known)
      break;
    atomic_store_explicit(&way, tried + 1, memory_order_relaxed);
  }
  return clinux_memory_way();
}

enum clinux_memory_way clinux_memory_way(void) {
  int chosen = atomic_load_explicit(&way, memory_order_relaxed);
  for (int index = 0; index < WINDOWS && chosen == CLINUX_MEMORY_BY_WINDOW; index++)
    if (windows[index].bytes && !atomic_load_explicit(&windows[index].is_open, memory_order_relaxed))
      chosen = CLINUX_MEMORY_BY_CALL;
  return (enum clinux_memory_way)chosen;
}
