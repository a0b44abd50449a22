import CCulpritLinux

/// Runs `body`, which waits, holds up the thread or is the application's: a process that forks meanwhile does not wait for
/// it. For `body` holds nothing that a child of fork(2) could miss (`clinux_fork.h`).
func resting<Result>(_ body: () -> Result) -> Result {
  let worked = clinux_fork_rest()
  defer { if worked { _ = clinux_fork_work() } }
  return body()
}

/// Runs `body`, which is the watchdog's own, in the midst of what runs by ``resting(_:)``.
func working<Result>(_ body: () -> Result) -> Result {
  let rested = clinux_fork_work()
  defer { if rested { _ = clinux_fork_rest() } }
  return body()
}
