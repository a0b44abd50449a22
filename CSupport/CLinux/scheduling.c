#define _GNU_SOURCE
#include "clinux_scheduling.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Highest NR_CPUS of arch/x86/Kconfig. The variables below are written only before `main`. */
enum { CPUS_MAX = 8192 };
static unsigned long cpus[CPUS_MAX / (8 * sizeof(unsigned long))];
static size_t cpu_bytes;
static int policy = SCHED_OTHER;
static int nice_value;

/* Linux's default (init_task). */
static unsigned long timer_slack_ns = 50000;

static size_t (*least_stack)(const pthread_attr_t *attributes);

/* Records the main thread's settings, even if another thread loads this library. */
__attribute__((constructor)) static void note_start(void) {
  int saved_errno = errno;
  /* Looked up here, because a later search could wait for the loader's lock. */
  *(void **)&least_stack = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");
  pid_t process = getpid();
  long bytes = syscall(SYS_sched_getaffinity, process, sizeof cpus, cpus);
  cpu_bytes = bytes > 0 ? (size_t)bytes : 0;
  int found = sched_getscheduler(process);
  if (found == SCHED_BATCH || found == SCHED_IDLE)
    policy = found;
  errno = 0;
  int value = getpriority(PRIO_PROCESS, (id_t)process);
  if (errno == 0)
    nice_value = value;
  int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  if (slack > 0)
    timer_slack_ns = (unsigned long)slack;
  errno = saved_errno;
}

void clinux_scheduling_prepare(pthread_attr_t *attributes) {
  struct sched_param parameter = {.sched_priority = 0};
  if (policy == SCHED_OTHER) {
    pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(attributes, policy);
    pthread_attr_setschedparam(attributes, &parameter);
  }
  if (cpu_bytes > 0)
    pthread_attr_setaffinity_np(attributes, cpu_bytes, (const cpu_set_t *)(const void *)cpus);
}

void clinux_scheduling_prepare_stack(pthread_attr_t *attributes, size_t bytes) {
  size_t page = getauxval(AT_PAGESZ);
  /* clinux_thread_pointer_learn_stacks expects whole pages. */
  if (least_stack)
    pthread_attr_setstacksize(attributes, (bytes + least_stack(attributes) + page - 1) / page * page);
}

void clinux_scheduling_settle(void) {
  int saved_errno = errno;
  if (policy != SCHED_OTHER) {
    struct sched_param parameter = {.sched_priority = 0};
    sched_setscheduler(0, policy, &parameter);
  }
  id_t self = (id_t)syscall(SYS_gettid);
  errno = 0;
  if (getpriority(PRIO_PROCESS, self) != nice_value && errno == 0)
    setpriority(PRIO_PROCESS, self, nice_value);
  prctl(PR_SET_TIMERSLACK, timer_slack_ns, 0, 0, 0);
  errno = saved_errno;
}
