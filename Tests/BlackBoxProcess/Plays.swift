import Blame
import Culprit
import Glibc
import StallRecord
import TestWorkloads

/// What the service can be made to do, by name.
let plays: [String: @Sendable (Watchdog) throws -> Void] = [
  "turn": { try turn($0, until: { false }) },
  "stall": { try stall($0) { holdUp { false } } },
  "recover": { watchdog in
    try stall(watchdog) {
      let end = ContinuousClock.now + .milliseconds(600)
      holdUp { ContinuousClock.now >= end }
    }
    watchdog.stop()
  },
  "tell": tell,
  "stop": { $0.stop() },
  "exit": { _ in exit(3) },
  "exit-stalled": { try stall($0) { exit(0) } },
  "_exit": { _ in _exit(3) },
  "abort": { _ in abort() },
  "fault": { _ in fault() },
  "fork": forkAndTurn,
  "out-of-memory": { _ in takeAllMemory() },
]

/// Turns a loop, healthily.
private func turn(_ watchdog: Watchdog, until isOver: () -> Bool) throws {
  let loop = try watchdog.watchLoop(named: "main")
  say("turning=\(getpid())")
  while !isOver() { loop.turn { _ = usleep(2000) } }
}

/// Works on a turn of a loop for long.
private func stall(_ watchdog: Watchdog, _ body: () -> Void) throws {
  let loop = try watchdog.watchLoop(named: "main")
  loop.turn {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    say("stalled=\(now.tv_sec * 1_000_000_000 + now.tv_nsec)")
    body()
  }
}

/// The code that is to blame.
@inline(never)
func holdUp(_ isOver: () -> Bool) {
  while !isOver() { usleep(20_000) }
}

/// Says how earlier runs ended.
@Sendable private func tell(_ watchdog: Watchdog) {
  watchdog.onPreviousRun { run in
    say("run=\(run.process) \(run.verdict)")
    if let signal = run.signal { say("signal=\(signal)") }
    for (report, stacks) in zip(run.hangs, run.lastStacks) {
      let culprit = report.culprit?.frame.function ?? "nobody"
      let others = report.stall.others?.threads.count ?? 0
      say(
        "hang=\(report.stall.source.name) \(culprit) \(report.stall.duration.wholeNanoseconds) \(stacks.count) \(others)"
      )
      say("lost=\(report.stall.lostSamples)")
    }
    if CommandLine.arguments.contains("--text") { say(run.description) }
  }
  watchdog.stop()
  for problem in watchdog.status.problems { say("problem=\(problem)") }
}

/// Dies of a fault.
private func fault() {
  // SAFETY: none: nothing is mapped there, and that is what is wanted.
  UnsafeMutablePointer<Int>(bitPattern: 8)?.pointee = 1
}

/// Has a child that ends in every way that could be taken for the end of this process, and one that goes on without exec when
/// this one does not.
@Sendable private func forkAndTurn(_ watchdog: Watchdog) throws {
  say("child=\(workload_fork { exit(7) })")
  say("child=\(workload_fork { fault(); return 0 })")
  say("child=\(workload_fork { workload_fork_and_leave() })")
  close(open("\(CommandLine.arguments[1])/turning", O_WRONLY | O_CREAT, 0o600))
  try turn(watchdog, until: { false })
}

private func takeAllMemory() {
  say("taking=\(getpid())")
  while true {
    let size = 1 << 20
    guard let memory = malloc(size) else { continue }
    memset(memory, 1, size)
  }
}
