import CCulpritLinux

/// Runs `body`, which might block or is application code. A fork does not wait for `body`, which must hold no locks or
/// other state that a child of fork(2) would miss (`clinux_fork.h`).
func allowingFork<Result>(_ body: () -> Result) -> Result {
  let worked = clinux_fork_rest()
  defer { if worked { _ = clinux_fork_work() } }
  return body()
}

/// Runs `body`, the watchdog's code, within a call to ``allowingFork(_:)``.
func blockingFork<Result>(_ body: () -> Result) -> Result {
  let rested = clinux_fork_work()
  defer { if rested { _ = clinux_fork_rest() } }
  return body()
}
