/* Runs a command and writes its cost to descriptor 3: nanoseconds of wall time, microseconds of CPU time, the peak of
 * resident memory in KiB, and the status of wait(2).
 *
 * Linux counts the memory of the process that starts a program as the program's own peak (setmax_mm_hiwater_rss in
 * begin_new_exec), so this program is small: about 1 MiB. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long microseconds(struct timeval time) { return time.tv_sec * 1000000LL + time.tv_usec; }

int main(int count, char **words) {
  if (count < 2 || fcntl(3, F_SETFD, FD_CLOEXEC) != 0)
    return 2;
  long long began = now();
  pid_t child = fork();
  if (child < 0)
    return 1;
  if (child == 0) {
    execvp(words[1], words + 1);
    _exit(127);
  }
  int status = 0;
  struct rusage usage;
  while (wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR)
      return 1;
  }
  long long processor = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
  return dprintf(3, "%lld %lld %ld %d\n", now() - began, processor, usage.ru_maxrss, status) > 0 ? 0 : 1;
}
