#define _GNU_SOURCE
#include "cprocess_cpu.h"

#include "clinux_clock.h"
#include "clinux_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
CLINUX_RESIDENT_CODE

void cprocess_cpu_open(struct cprocess_cpu_source *source) {
  long ticks = sysconf(_SC_CLK_TCK);
  source->ticks = ticks > 0 ? (uint32_t)ticks : 100;
  source->cpus = clinux_process_cpus();
}

static uint64_t of_timeval(struct timeval time) {
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_usec * 1000;
}

/* Written only before `main`. */
static struct cprocess_program_start program_start;

/* Other constructors run later and are part of the launch. */
__attribute__((constructor(101))) static void note_program_start(void) {
  int saved_errno = errno;
  struct rusage used = {0};
  getrusage(RUSAGE_SELF, &used);
  program_start = (struct cprocess_program_start){
      .at_ns = clinux_clock_ns(),
      .user_ns = of_timeval(used.ru_utime),
      .system_ns = of_timeval(used.ru_stime),
      .thread_ns = clinux_clock_thread_cpu_ns(getpid()),
  };
  errno = saved_errno;
}

struct cprocess_program_start cprocess_cpu_at_program_start(void) {
  return program_start;
}

void cprocess_cpu_read(const struct cprocess_cpu_source *source, struct cprocess_cpu *cpu) {
  int saved_errno = errno;
  struct rusage used = {0};
  cpu->taken_ns = clinux_clock_ns();
  getrusage(RUSAGE_SELF, &used);
  cpu->user_ns = of_timeval(used.ru_utime);
  cpu->system_ns = of_timeval(used.ru_stime);
  /* "cpu  user nice system idle iowait irq softirq steal …". Guest time is part of user time. */
  char text[256];
  /* Opened each time: the service might close a descriptor kept open. */
  int descriptor = clinux_process_is_kernels("/proc/stat") ? open("/proc/stat", O_RDONLY | O_CLOEXEC) : -1;
  ssize_t count = descriptor < 0 ? 0 : read(descriptor, text, sizeof text);
  if (descriptor >= 0)
    close(descriptor);
  uint64_t columns[8] = {0};
  int column = -1;
  for (ssize_t at = 0; at < count && text[at] != '\n' && column < 8; at++) {
    bool digit = text[at] >= '0' && text[at] <= '9';
    if (digit && at > 0 && text[at - 1] == ' ')
      column++;
    if (digit && column >= 0 && column < 8)
      columns[column] = columns[column] * 10 + (uint64_t)(text[at] - '0');
  }
  uint64_t tick_ns = UINT64_C(1000000000) / source->ticks;
  cpu->machine_user_ns = (columns[0] + columns[1]) * tick_ns;
  cpu->machine_system_ns = (columns[2] + columns[5] + columns[6]) * tick_ns;
  errno = saved_errno;
}
