#define _GNU_SOURCE
#include "observer_memory.h"

#include "observer_descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* What is used in this process, and what it uses: opened before the first reading, and closed by nobody but a child. */
static _Atomic int way = OBSERVER_MEMORY_BY_CALL;
static struct observer_descriptor memory_file = {.number = -1};
static struct observer_descriptor pipe_reader = {.number = -1};
static struct observer_descriptor pipe_writer = {.number = -1};

/* Opens what is not open, or not any more: the service may close what is not its own. One thread at a time. */
static void open_file(void) {
  if (!observer_descriptor_is_ours(&memory_file))
    memory_file = observer_descriptor_keep(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
}

static void open_pipe(void) {
  int ends[2];
  if ((observer_descriptor_is_ours(&pipe_reader) && observer_descriptor_is_ours(&pipe_writer)) ||
      pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return;
  observer_descriptor_close(&pipe_reader);
  observer_descriptor_close(&pipe_writer);
  pipe_reader = observer_descriptor_keep(ends[0]);
  pipe_writer = observer_descriptor_keep(ends[1]);
}

/* Whether there is the file. */
static bool has_file(void) {
  static atomic_flag is_taken = ATOMIC_FLAG_INIT;
  if (observer_descriptor_is_ours(&memory_file))
    return true;
  if (atomic_flag_test_and_set_explicit(&is_taken, memory_order_acquire))
    return false;
  open_file();
  atomic_flag_clear_explicit(&is_taken, memory_order_release);
  return observer_descriptor_is_ours(&memory_file);
}

static bool read_by_call(uint64_t address, void *destination, size_t length) {
  struct iovec local = {destination, length};
  struct iovec remote = {(void *)(uintptr_t)address, length};
  long got = syscall(SYS_process_vm_readv, (pid_t)syscall(SYS_getpid), &local, 1UL, &remote, 1UL, 0UL);
  return got >= 0 && (size_t)got == length;
}

static bool read_by_file(uint64_t address, void *destination, size_t length) {
  /* The kernel's file position is signed. */
  if (address > INT64_MAX - length || !has_file())
    return false;
  long got = syscall(SYS_pread64, memory_file.number, destination, length, (long)address);
  return got >= 0 && (size_t)got == length;
}

/* The kernel refuses to write to a pipe from memory that is not there, with EFAULT. Never more than the pipe holds, which
 * is empty before and after. */
static bool copy_through_pipe(uint64_t address, void *destination, size_t length) {
  /* The service may have closed them: what is read must not be written to a file of its own. */
  open_pipe();
  if (!observer_descriptor_is_ours(&pipe_reader) || !observer_descriptor_is_ours(&pipe_writer))
    return false;
  for (size_t copied = 0; copied < length;) {
    size_t piece = PAGE - (size_t)((address + copied) % PAGE);
    if (piece > length - copied)
      piece = length - copied;
    long written = syscall(SYS_write, pipe_writer.number, (const void *)(uintptr_t)(address + copied), piece);
    if (written <= 0)
      return false;
    if (syscall(SYS_read, pipe_reader.number, (uint8_t *)destination + copied, (size_t)written) != written)
      return false;
    copied += (size_t)written;
  }
  return true;
}

/* One at a time. Who has the pipe is inside a few system calls that do not block; to wait for it is bounded all the same. */
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

bool observer_memory_read(uint64_t address, void *destination, size_t length) {
  int saved_errno = errno;
  bool is_read = false;
  switch (atomic_load_explicit(&way, memory_order_relaxed)) {
  case OBSERVER_MEMORY_BY_CALL:
    is_read = read_by_call(address, destination, length);
    break;
  case OBSERVER_MEMORY_BY_FILE:
    is_read = read_by_file(address, destination, length);
    break;
  case OBSERVER_MEMORY_BY_PIPE:
    is_read = read_by_pipe(address, destination, length);
    break;
  default:
    break;
  }
  errno = saved_errno;
  return is_read;
}

/* A page a piece: the call transfers whole pieces only. Few at a time: this runs on a signal handler's stack. */
static size_t read_some_by_call(uint64_t address, void *destination, size_t length) {
  enum { BATCH = 8 };
  pid_t pid = (pid_t)syscall(SYS_getpid);
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
    long got = syscall(SYS_process_vm_readv, pid, local, (unsigned long)count, remote, (unsigned long)count, 0UL);
    if (got > 0)
      copied += (size_t)got;
    if (got < 0 || (size_t)got < asked)
      break;
  }
  return copied;
}

static size_t read_some_by_file(uint64_t address, void *destination, size_t length) {
  if (address > INT64_MAX - length || !has_file())
    return 0;
  long got = syscall(SYS_pread64, memory_file.number, destination, length, (long)address);
  return got > 0 ? (size_t)got : 0;
}

size_t observer_memory_read_some(uint64_t address, void *destination, size_t length) {
  int saved_errno = errno;
  size_t copied = 0;
  switch (atomic_load_explicit(&way, memory_order_relaxed)) {
  case OBSERVER_MEMORY_BY_CALL:
    copied = read_some_by_call(address, destination, length);
    break;
  case OBSERVER_MEMORY_BY_FILE:
    copied = read_some_by_file(address, destination, length);
    break;
  default:
    break;
  }
  errno = saved_errno;
  return copied;
}

/* Runs in the child after fork(2): the file is the parent's memory, and the pipe is shared with it. They are closed by
 * observer_descriptor.h. */
static void forget_parent(void) {
  memory_file = pipe_reader = pipe_writer = OBSERVER_NO_DESCRIPTOR;
  atomic_store_explicit(&way, OBSERVER_MEMORY_BY_CALL, memory_order_relaxed);
}

enum observer_memory_way observer_memory_start(void) {
  static bool is_guarded;
  if (!is_guarded)
    is_guarded = pthread_atfork(NULL, NULL, forget_parent) == 0;
  uint64_t known = UINT64_C(0x0123456789abcdef);
  for (int tried = OBSERVER_MEMORY_BY_CALL; tried < OBSERVER_MEMORY_UNREADABLE; tried++) {
    if (tried == OBSERVER_MEMORY_BY_FILE)
      open_file();
    if (tried == OBSERVER_MEMORY_BY_PIPE)
      open_pipe();
    atomic_store_explicit(&way, tried, memory_order_relaxed);
    uint64_t found = 0;
    if (observer_memory_read((uint64_t)(uintptr_t)&known, &found, sizeof found) && found == known)
      break;
    atomic_store_explicit(&way, tried + 1, memory_order_relaxed);
  }
  return observer_memory_way();
}

enum observer_memory_way observer_memory_way(void) {
  return (enum observer_memory_way)atomic_load_explicit(&way, memory_order_relaxed);
}
