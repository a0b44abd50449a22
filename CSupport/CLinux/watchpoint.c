#define _GNU_SOURCE
#include "clinux_watchpoint.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t note_bytes(void) { return 2 * (size_t)sysconf(_SC_PAGESIZE); }

bool clinux_calls_are_filtered(void) { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0; }

int clinux_watchpoint_set(struct clinux_watchpoint *watchpoint, int32_t tid, uint64_t address) {
  /* Some filters end the process for perf_event_open(2). */
  if (clinux_calls_are_filtered())
    return EPERM;
  struct perf_event_attr what = {
      .type = PERF_TYPE_BREAKPOINT,
      .size = sizeof what,
      .bp_type = HW_BREAKPOINT_W,
      .bp_addr = address,
      .bp_len = HW_BREAKPOINT_LEN_8,
      .sample_period = 1,
      .disabled = 1,
      .exclude_kernel = 1,
      .exclude_hv = 1,
  };
  int descriptor = (int)syscall(SYS_perf_event_open, &what, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (descriptor < 0)
    return errno;
  /* The mapping keeps the counter alive; children do not inherit it. */
  void *note = mmap(NULL, note_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  /* mmap(2) fails with EPERM if the user has locked too much memory for counters (perf_event_mlock_kb). */
  int error = note == MAP_FAILED ? EAGAIN : 0;
  if (error == 0 && ioctl(descriptor, PERF_EVENT_IOC_REFRESH, 1) != 0) {
    error = errno;
    munmap(note, note_bytes());
  }
  close(descriptor);
  if (error == 0)
    watchpoint->note = note;
  return error;
}

bool clinux_watchpoint_is_hit(const struct clinux_watchpoint *watchpoint) {
  const struct perf_event_mmap_page *account = watchpoint->note;
  return account && __atomic_load_n(&account->data_head, __ATOMIC_ACQUIRE) != 0;
}

void clinux_watchpoint_clear(struct clinux_watchpoint *watchpoint) {
  if (watchpoint->note)
    munmap(watchpoint->note, note_bytes());
  watchpoint->note = NULL;
}
