import Culprit
import CulpritStallRecord
import Glibc
import Programs
import Synchronization
import TestWorkloads

@inline(never)
private func serveSlowly() { usleep(600_000) }

/// Starts a watchdog without keeping a reference, as setup functions of applications do.
@Sendable private func configure(_ directory: String?) throws {
  let watchdog = try Watchdog(threshold: .milliseconds(400), directory: directory)
  watchdog.onStallBegan { _ in isStuck.store(true, ordering: .releasing) }
  try watchdog.watchConcurrency()
}

private let isStuck = Atomic(false)

nonisolated(unsafe) private var kept: Watchdog?

/// Returns the content of each stall file in `directory`.
func savedStalls(in directory: String?) -> [[UInt8]] {
  let directory = directory ?? ""
  return entries(of: directory).filter { $0.hasSuffix(".stall") }.map { readBytes("\(directory)/\($0)") }
}

/// Returns the number of stalls in `directory` whose ends are saved.
private func endsSaved(_ directory: String?) -> Int {
  savedStalls(in: directory).count { StallFile.hasEnd($0) }
}

private func importOnce(_ directory: String?) throws {
  let watchdog = try Watchdog(threshold: .milliseconds(400), directory: directory)
  watchdog.withSection("accept", threshold: .milliseconds(400)) { serveSlowly() }
}

/// Stalls and ends the process in the given way: `end WAY [DIRECTORY]`. `previous` prints the end of the previous run.
@Sendable func end(_ arguments: [String]) throws {
  let way = arguments.first ?? ""
  let directory = arguments.dropFirst().first

  switch way {
  case "scope":
    try configure(directory)
    // Occupies all threads of Swift's pool.
    for _ in 0..<sysconf(Int32(_SC_NPROCESSORS_ONLN)) { Task.detached { serveSlowly() } }
    while !isStuck.load(ordering: .acquiring) { usleep(10_000) }
    exit(0)
  case "release":
    try importOnce(directory)
    say("released=true")
    exit(0)
  default: break
  }

  let watchdog = try Watchdog(threshold: .milliseconds(400), directory: directory)
  kept = watchdog
  let loop = try watchdog.watchLoop(named: "accept")

  switch way {
  case "previous":
    watchdog.onPreviousRun { run in
      say("run=\(run.ending.rawValue)")
      say("signal=\(run.signal ?? 0)")
      for hang in run.hangs {
        say("hang=\(hang.report.source.name)")
        say("count=\(hang.report.group?.count ?? 1)")
      }
      say("reports=\(run.description.split(separator: "\n").count { $0.hasPrefix("STALL ") })")
    }
    while !watchdog.stop(patience: .seconds(60)) {}
    exit(0)
  case "quick": exit(3)
  case "handler", "handler-stops":
    watchdog.onStall { report in
      say("report=\(report.source.name)")
      if way == "handler-stops" { watchdog.stop() }
      exit(3)
    }
  case "pending":
    watchdog.onStall { report in
      isStuck.store(true, ordering: .releasing)
      while true { pause() }
    }
  case "scoped":
    for _ in 0..<3 { try watchdog.watchLoop(named: "request", scoped: true).withTurn {} }
    say("scoped=true")
  case "served":
    // The watchdog must keep the service's handler.
    signal(SIGTERM) { _ in _exit(7) }
  case "ignored": signal(SIGTERM, SIG_IGN)
  case "child":
    let status = workload_fork {
      kill(getpid(), SIGTERM)
      return 0
    }
    say("child=\(status)")
  default: break
  }

  loop.begin()
  serveSlowly()
  if way == "stop-stalled" { while !watchdog.stop(patience: .seconds(60)) {} }
  if way.hasSuffix("stalled") && way != "terminate-stalled" { exit(3) }
  if way == "thread" {
    startThread { exit(3) }
    while true { pause() }
  }
  if way == "terminate-stalled" { kill(getpid(), SIGTERM) }
  loop.end()

  switch way {
  case "exit": exit(3)
  case "stop": watchdog.stop()
  case "stop-at-once":
    watchdog.stop(patience: .zero)
    exit(3)
  case "handler", "handler-stops": while true { pause() }
  case "terminate", "served", "ignored":
    while endsSaved(directory) == 0 { usleep(10_000) }
    kill(getpid(), SIGTERM)
    say("ignored=true")
    exit(3)
  case "pending":
    while !isStuck.load(ordering: .acquiring) { usleep(10_000) }
    let other = try watchdog.watchLoop(named: "other")
    other.withTurn { serveSlowly() }
    while endsSaved(directory) < 2 { usleep(10_000) }
    kill(getpid(), SIGKILL)
  case "kill": kill(getpid(), SIGKILL)
  case "_exit": _exit(3)
  default: break
  }
}
