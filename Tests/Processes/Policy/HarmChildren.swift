import CCulpritLinux
import Culprit
import Glibc
import Synchronization
import TestWorkloads

/// The parent's watchdog and its objects, as a child inherits them.
final class Inheritance {
  var watchdog: Watchdog?
  var loop: WatchedLoop?
  var timer: WatchedSection?
  var activity: WatchedActivity?

  init() throws {
    var configuration = quick()
    configuration.lifecycle.terminateAfter = .seconds(60)
    let watchdog = try Watchdog(configuration)
    watchdog.onStall { _ in }
    self.watchdog = watchdog
    loop = try watchdog.watchLoop(named: "main")
    timer = watchdog.beginSection("inherited", threshold: .seconds(60)) { _ in }
    activity = try watchdog.beginActivity("inherited", threshold: .seconds(60))
  }
}

/// Forks, again if the fork has not waited for a working thread: on a busy machine, the child could inherit its locks.
private func forkInTime() -> pid_t {
  while true {
    let impatient = clinux_fork_impatient_count()
    let child = workload_plain_fork()
    if clinux_fork_impatient_count() == impatient { return child }
    if child == 0 { _exit(0) }
    while waitpid(child, nil, 0) < 0, errno == EINTR {}
  }
}

/// Forks `count` times within a turn and a section, while other threads begin and end work. Each child ends the turn
/// and the section, runs `body` and exits.
func haveChildren(_ count: Int, _ body: (Inheritance) throws -> Void) throws {
  let inheritance = try Inheritance()
  guard let watchdog = inheritance.watchdog, let loop = inheritance.loop else { return }
  let busy = try BusyThreads(watchdog)
  var ends = Ends()
  for _ in 0..<count {
    let child = loop.withTurn(label: "forking") {
      watchdog.withSection("forking", threshold: .seconds(60)) { loop.withExemption { forkInTime() } }
    }
    if child == 0 {
      // Ends a hanging child by SIGALRM. A crashing child has another status.
      alarm(30)
      try body(inheritance)
      _exit(0)
    }
    ends.wait(for: child)
  }
  busy.end()
  watchdog.stop(patience: .seconds(10))
  ends.print()
}

/// Uses the inherited objects once more and releases them.
func releaseEverything(_ inheritance: Inheritance) throws {
  inheritance.loop?.withTurn(label: "child") {}
  inheritance.timer?.label("child")
  inheritance.timer?.end()
  inheritance.activity?.end()
  _ = inheritance.activity?.timeRemaining
  inheritance.watchdog?.withActivity("child") {}
  inheritance.watchdog?.onStall { _ in }
  inheritance.watchdog?.addContext("child") { "child" }
  inheritance.watchdog?.notifySystemd(status: "child")
  inheritance.watchdog?.launched()
  inheritance.watchdog?.shuttingDown()
  inheritance.watchdog?.pause()
  inheritance.watchdog?.resume()
  _ = inheritance.watchdog?.status
  _ = inheritance.watchdog?.configuration
  try? inheritance.watchdog?.reconfigure { $0.reporting.perMinute = 7 }
  if (try? inheritance.watchdog?.watchLoop(named: "child")) != nil { _exit(3) }
  if (try? inheritance.watchdog?.captureThreads(timeout: .seconds(1))) != nil { _exit(4) }
  inheritance.watchdog?.stop()
  inheritance.loop?.stop()
  inheritance.loop = nil
  inheritance.timer = nil
  inheritance.activity = nil
  inheritance.watchdog = nil
}

/// Starts a watchdog in a child, which must report a stall while inherited objects are used.
func watchForThemselves(_ inheritance: Inheritance) throws {
  let seen = Atomic<Int>(0)
  try withExtendedLifetime(Witness()) { witness in
    let watchdog = try Watchdog(quick())
    watchdog.onStall { report in if report.source.name == "own" { witness.seen.add(1, ordering: .relaxed) } }
    let loop = try watchdog.watchLoop(named: "own")
    loop.begin()
    // The inherited objects must not end work of the child's watchdog.
    inheritance.loop?.begin()
    inheritance.loop?.end()
    inheritance.timer?.end()
    stall(.milliseconds(600))
    inheritance.loop?.stop()
    loop.end()
    stopOrReport(watchdog)
    seen.store(witness.seen.load(ordering: .relaxed), ordering: .relaxed)
  }
  if seen.load(ordering: .relaxed) != 1 { _exit(5) }
}

final class Witness: Sendable {
  let seen = Atomic<Int>(0)
}

func haveChildOfTheirOwn(_ inheritance: Inheritance) throws {
  inheritance.loop = nil
  let watchdog = try Watchdog(quick())
  let loop = try watchdog.watchLoop(named: "own")
  let child = loop.withTurn { watchdog.withSection("own", threshold: .seconds(60)) { forkInTime() } }
  if child == 0 {
    try watchForThemselves(inheritance)
    watchdog.stop(patience: .seconds(10))
    exit(0)
  }
  var status: Int32 = 0
  while waitpid(child, &status, 0) < 0, errno == EINTR {}
  watchdog.stop(patience: .seconds(10))
  if status != 0 { _exit(6) }
}

/// Forks during the first report, when the Swift runtime instantiates most types. Each child uses new types and exits.
/// A hanging child is an error unless its fork timed out, as on a busy machine.
func forkWhileReporting(_ inheritance: Inheritance) throws {
  inheritance.loop = nil
  let witness = Witness()
  let watchdog = try Watchdog(quick())
  watchdog.onStall { _ in witness.seen.add(1, ordering: .relaxed) }
  let loop = try watchdog.watchLoop(named: "own")
  loop.withTurn { stall(.milliseconds(300)) }
  var children: [(id: pid_t, isWaitedFor: Bool)] = []
  while witness.seen.load(ordering: .relaxed) == 0, children.count < 200 {
    let impatient = clinux_fork_impatient_count()
    let child = workload_plain_fork()
    if child == 0 {
      alarm(10)
      useNewTypes()
      _exit(0)
    }
    children.append((child, clinux_fork_impatient_count() == impatient))
    usleep(500)
  }
  var ends = Ends()
  var otherEnds = Ends()
  for child in children {
    if child.isWaitedFor { ends.wait(for: child.id) } else { otherEnds.wait(for: child.id) }
  }
  stopOrReport(watchdog)
  // Most forks must not time out, even on a busy machine.
  if ends.others.isEmpty, ends.exited > otherEnds.exited { return }
  ends.print()
  otherEnds.print()
  _exit(8)
}

/// Makes the Swift runtime instantiate new types.
private func useNewTypes() {
  struct Unused<Value>: Hashable where Value: Hashable { var value: Value }
  let values = (0..<3).map { Unused(value: Unused(value: $0)) }
  let found = Set(values.compactMap { $0.value.value > 0 ? [$0: $0.value] : nil }.prefix(1))
  if found.count != 1 { _exit(1) }
}
