#define _GNU_SOURCE
#include "observer_residency.h"

#include "clinux_descriptor.h"
#include "clinux_mask.h"
#include "clinux_memory.h"
#include "clinux_module.h"
#include "clinux_process.h"
#include "clinux_residency.h"
#include "clinux_task.h"
#include "clinux_wait.h"
#include "cprocess_abort.h"
#include "cprocess_cpu.h"
#include "cprocess_crash.h"
#include "cprocess_datagram.h"
#include "cprocess_escalation.h"
#include "cprocess_sigterm.h"
#include "deep_room.h"
#include "observer_capture.h"
#include "observer_ring.h"
#include "observer_sampling.h"
#include "observer_slot.h"
#include "observer_stall.h"
#include "observer_swift_task.h"
#include "own_stack.h"
#include "task_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Calls the functions that are needed when the process is stuck, without effect: the loader resolves a function at its
 * first call, in tables that might not be in memory. */
static void bind_calls(void) {
  int saved_errno = errno;
  struct timespec none = {0};
  struct sigaction action;
  sigset_t mask;
  struct rusage used;
  char byte = 0;
  nanosleep(&none, NULL);
  clock_gettime(CLOCK_MONOTONIC, &none);
  poll(NULL, 0, 0);
  sched_yield();
  kill(getpid(), 0);
  sigaction(SIGABRT, NULL, &action);
  sigprocmask(SIG_BLOCK, NULL, &mask);
  getrusage(RUSAGE_SELF, &used);
  if (write(-1, &byte, 1) < 0 && read(-1, &byte, 1) < 0 && pread(-1, &byte, 1, 0) < 0 &&
      sendto(-1, &byte, 1, MSG_DONTWAIT, NULL, 0) < 0)
    close(-1);
  errno = saved_errno;
}

bool observer_keep_own_code_resident(void) {
  static const struct {
    void (*function)(void);
    size_t bytes; /* on either side: approximate size of the file's code */
  } own[] = {
#define OWN(function, bytes) {(void (*)(void))(function), bytes}
      OWN(cprocess_abort_thread, 8 << 10),
      OWN(observer_capture_collect, 8 << 10),
      OWN(observer_capture_answered, 8 << 10),
      OWN(observer_deep_room_or, 1 << 10),
      OWN(cprocess_cpu_read, 4 << 10),
      OWN(cprocess_datagram_send, 4 << 10),
      OWN(observer_machine_registers, 1 << 10),
      OWN(observer_stall_read, 4 << 10),
      OWN(observer_ring_write, 4 << 10),
      OWN(cprocess_crash_wake, 1 << 10),
      OWN(observer_work_follow, 8 << 10),
      OWN(cprocess_sigterm_chain, 4 << 10),
      OWN(observer_slot_read, 8 << 10),
      OWN(clinux_task_starved_ns, 4 << 10),
      OWN(clinux_wait, 4 << 10),
      OWN(clinux_descriptor_is_ours, 4 << 10),
      OWN(clinux_memory_read_some, 8 << 10),
      /* Other functions that the handler calls. */
      OWN(observer_swift_task_note, 1 << 10),
      OWN(task_memory_layout, 1),
      OWN(observer_copy_own_stack, 1 << 10),
      OWN(clinux_module_find, 1 << 10),
      OWN(clinux_write, 4 << 10),
      OWN(clinux_process_is_kernels, 1 << 10),
      OWN(cprocess_text_take, 4 << 10),
      /* Functions of the C library; one page each. */
      OWN(clock_gettime, 1),
      OWN(getpid, 1),
      OWN(getrusage, 1),
      OWN(kill, 1),
      OWN(memcpy, 1),
      OWN(memset, 1),
      OWN(nanosleep, 1),
      OWN(open, 1),
      OWN(poll, 1),
      OWN(pread, 1),
      OWN(read, 1),
      OWN(sched_yield, 1),
      OWN(sendto, 1),
      OWN(sigaction, 1),
      OWN(sigprocmask, 1),
      OWN(syscall, 1),
      OWN(write, 1),
      OWN(close, 1),
#undef OWN
  };
  bool is_kept = true;
  for (size_t index = 0; index < sizeof own / sizeof own[0]; index++)
    is_kept &= clinux_keep_code_resident((uint64_t)(uintptr_t)own[index].function, own[index].bytes);
  bind_calls();
  return is_kept;
}
