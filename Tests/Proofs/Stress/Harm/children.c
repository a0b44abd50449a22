#define _GNU_SOURCE
#include "stress_harm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t stress_fork(void) { return fork(); }

void stress_leave(int status) { _exit(status); }

enum { OWN_FILES = 48 };

bool stress_own_descriptors(void (*body)(void *context), void *context) {
  int files[OWN_FILES];
  struct stat before[OWN_FILES];
  closefrom(STDERR_FILENO + 1);
  for (int index = 0; index < OWN_FILES; index++) {
    files[index] = memfd_create("own", 0);
    if (files[index] < 0 || write(files[index], &index, sizeof index) != sizeof index ||
        fstat(files[index], &before[index]) != 0)
      return false;
  }
  body(context);
  for (int index = 0; index < OWN_FILES; index++) {
    struct stat now;
    int content = -1;
    if (fstat(files[index], &now) != 0 || now.st_dev != before[index].st_dev || now.st_ino != before[index].st_ino ||
        pread(files[index], &content, sizeof content, 0) != sizeof content || content != index ||
        now.st_size != sizeof content)
      return false;
  }
  return true;
}

pid_t stress_run(char *const words[], int output, bool by_vfork) {
  pid_t child = -1;
  if (by_vfork) {
    child = vfork();
    if (child == 0) {
      if (output >= 0)
        dup2(output, STDOUT_FILENO);
      execve(words[0], words, environ);
      _exit(127);
    }
    return child;
  }
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0)
    return -1;
  if (output >= 0)
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  int error = posix_spawn(&child, words[0], &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : -1;
}

int stress_wait(pid_t child) {
  int status;
  for (int tenths = 0; tenths < 10000; tenths++) {
    pid_t found = waitpid(child, &status, WNOHANG);
    if (found == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (found < 0 && errno != EINTR)
      return -1001;
    usleep(1000);
  }
  kill(child, SIGKILL);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  return -1000;
}

struct job {
  void (*body)(void *context);
  void *context;
};

static void *run_job(void *argument) {
  struct job job = *(struct job *)argument;
  free(argument);
  job.body(job.context);
  pthread_exit(NULL);
}

int stress_start_thread(void (*body)(void *context), void *context) {
  struct job *job = malloc(sizeof *job);
  if (job == NULL)
    return ENOMEM;
  *job = (struct job){body, context};
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  int error = pthread_create(&thread, &attributes, run_job, job);
  pthread_attr_destroy(&attributes);
  if (error != 0)
    free(job);
  return error;
}

/* The soft limit only, so that it can be put back. */
static bool limit_for(__rlimit_resource_t which, rlim_t value, uint32_t microseconds) {
  struct rlimit before, limit;
  if (getrlimit(which, &before) != 0)
    return false;
  limit = (struct rlimit){value < before.rlim_max ? value : before.rlim_max, before.rlim_max};
  if (setrlimit(which, &limit) != 0)
    return false;
  uint64_t end = stress_now_ns() + (uint64_t)microseconds * 1000;
  while (stress_now_ns() < end)
    usleep(1000);
  return setrlimit(which, &before) == 0;
}

bool stress_limit_memory(uint64_t extra, uint32_t microseconds) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL)
    return false;
  int found = fscanf(file, "%lu", &pages);
  fclose(file);
  return found == 1 && limit_for(RLIMIT_AS, pages * (rlim_t)sysconf(_SC_PAGESIZE) + extra, microseconds);
}

bool stress_limit_files(uint32_t microseconds) {
  int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (lowest < 0)
    return false;
  close(lowest);
  return limit_for(RLIMIT_NOFILE, (rlim_t)lowest, microseconds);
}

bool stress_limit_signals(uint32_t microseconds) { return limit_for(RLIMIT_SIGPENDING, 0, microseconds); }

int stress_drop_pages(void) {
  char line[512];
  int count = 0;
  FILE *file = fopen("/proc/self/maps", "re");
  if (file == NULL)
    return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    unsigned long start, end;
    char mode[5], path[256] = "";
    if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &start, &end, mode, path) < 4 || path[0] != '/' || mode[1] == 'w')
      continue;
    if (madvise((void *)start, end - start, MADV_PAGEOUT) == 0)
      count++;
  }
  fclose(file);
  return count;
}
