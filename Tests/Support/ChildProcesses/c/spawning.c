#define _GNU_SOURCE
#include "spawning.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

static int act(posix_spawn_file_actions_t *actions, const struct spawning *how) {
  int error = how->directory == NULL ? 0 : posix_spawn_file_actions_addchdir_np(actions, how->directory);
  if (error == 0)
    error = how->input >= 0 ? posix_spawn_file_actions_adddup2(actions, how->input, STDIN_FILENO)
                            : posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (error == 0 && how->output >= 0)
    error = posix_spawn_file_actions_adddup2(actions, how->output, STDOUT_FILENO);
  if (error == 0 && how->errors >= 0)
    error = posix_spawn_file_actions_adddup2(actions, how->errors, STDERR_FILENO);
  /* Other code of this process might have opened descriptors without O_CLOEXEC. */
  if (error == 0)
    error = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
  return error;
}

int spawning_start(const struct spawning *how, pid_t *process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0)
    return error;
  error = posix_spawnattr_init(&attributes);
  if (error == 0) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  (how->is_alone ? POSIX_SPAWN_SETPGROUP : 0)));
    error = act(&actions, how);
    if (error == 0)
      error = posix_spawn(process, how->program, &actions, &attributes, how->words,
                          how->environment != NULL ? how->environment : environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

int spawning_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno; }

int spawning_file(void) { return memfd_create("said", MFD_CLOEXEC); }
