import Culprit
import Glibc
import Synchronization

/// What stalls until somebody has reported it: then the report came while it did.
@inline(never)
func waitForReports(_ count: Int) {
  while reportCount.load(ordering: .acquiring) < count { usleep(10_000) }
}

let reportCount = Atomic<Int>(0)

/// A service that is ready, works, hangs, works again and ends.
@Sendable func liveWithSystemd(_ arguments: [String]) throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.sampling.hangThreshold = .milliseconds(400)
  configuration.lifecycle.notifiesSystemd = true
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { report in
    say("report=\(report.source.name), \(report.hasEnded ? "over" : "under way")")
    reportCount.add(1, ordering: .releasing)
  }
  for problem in watchdog.status.problems { say("problem=\(problem)") }
  let loop = try watchdog.watchLoop(named: "http")
  watchdog.launched()
  watchdog.tellSystemd(status: "serving\nREADY=0")
  func work(until condition: () -> Bool) {
    while !condition() { loop.withTurn { _ = usleep(10_000) } }
  }
  guard let state = watchdog.status.systemd else {
    say("systemd=none")
    return watchdog.stop()
  }
  if arguments.first == "unpinged" {
    work { watchdog.status.wakeups > 8 }
    say("pings=\(watchdog.status.systemd?.pings ?? 0)")
    return watchdog.stop()
  }
  if arguments.first == "unread" {
    // Nobody reads: the queue fills up, and nothing waits for it.
    work { watchdog.status.systemd?.problem != nil }
    say("unsent=\(watchdog.status.systemd?.problem ?? "")")
    watchdog.tellSystemd(status: "not waited for")
    return watchdog.stop()
  }
  work { (watchdog.status.systemd?.pings ?? 0) >= state.pings + 3 }
  loop.withTurn {
    if arguments.first == "killed" { while true { pause() } }
    waitForReports(1)
  }
  let pings = watchdog.status.systemd?.pings ?? 0
  work { (watchdog.status.systemd?.pings ?? 0) > pings + 1 }
  say("hangs=\(watchdog.status.systemd?.hangs ?? 0)")
  watchdog.shuttingDown()
  watchdog.stop()
}
